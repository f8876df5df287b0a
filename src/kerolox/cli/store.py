"""`kerolox store`: look at a store directory, ours or RocketMQ's, without changing it."""

import contextlib
import sys
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
import msgspec

from kerolox.errors import ConfigurationError, reason
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message
from kerolox.message.sysflag import is_compressed
from kerolox.runtime import properties
from kerolox.store.checking.check import check
from kerolox.store.checking.dump import Wanted, dump
from kerolox.store.checking.report import Report
from kerolox.store.checking.sizes import found_settings
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError

_BODY_SIZE_MAX = 64 * 1024 * 1024

_STORE = click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
_CONFIG = click.option(
    "-c", "--configFile", "config_file", type=Path, help="Properties of its broker, if sizes cannot be found out."
)
_JSON = click.option("--json", "is_json", is_flag=True, help="Print JSON, for machines.")


@click.group()
def store() -> None:
    """Verify a store directory, or print what is in it."""


@store.command("check", short_help="Verify what is in DIRECTORY; ends with 1 if something is wrong.")
@_STORE
@_CONFIG
@_JSON
def check_command(directory: Path, config_file: Path | None, is_json: bool) -> None:
    """Verify log, queues, index, checkpoint, tables and timer in DIRECTORY; ends with 1 if something is wrong.

    Nothing is changed, and a broker may be at work in it.
    """
    try:
        config = _configuration(directory, config_file)
        with click.progressbar(length=1000, label="reading the store", file=sys.stderr) as bar:
            report = check(config, lambda done, total: bar.update(done * 1000 // max(total, 1) - bar.pos))
    except (StoreError, OSError) as error:
        raise click.ClickException(_why(error)) from error
    if is_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        _print(report)
    if not report.is_whole:
        raise SystemExit(1)


def _print(report: Report) -> None:
    stopped = "cleanly" if report.is_clean else "open, or stopped uncleanly: the next start will recover it"
    rows = [
        ("log", f"{report.first_offset} to {report.end_offset}, {report.records} records, {report.bytes} bytes"),
        ("queues", f"{report.queues}, {report.entries} entries" + (f", {report.units} units" if report.units else "")),
        ("index", f"{report.index_files} files, {report.index_entries} entries"),
        ("tables", f"{report.tables}"),
        ("timer", f"{report.timer_units} units, {report.timer_slots} moments to come"),
        ("stopped", stopped),
        *(("note", note) for note in report.notes),
        *(("WRONG", complaint) for complaint in report.complaints),
    ]
    if report.complaints_left_out:
        rows.append(("WRONG", f"and {report.complaints_left_out} more"))
    for name, text in rows:
        click.echo(f"{name:<9}{text}")
    wrong = len(report.complaints) + report.complaints_left_out
    click.echo("whole" if not wrong else f"{wrong} things are wrong")


@store.command("dump")
@_STORE
@_CONFIG
@click.option("--topic", help="Records of this topic only.")
@click.option("--queue", "queue_id", type=int, help="Records of this queue only.")
@click.option("--queue-offset", type=int, help="From this offset of the queue on.")
@click.option("--key", help="Records with this key, or this unique key, only.")
@click.option("--from", "start_offset", type=int, default=0, help="Begin at this offset of the log.")
@click.option("--to", "end_offset", type=int, help="End before this offset of the log.")
@click.option("--limit", "--count", type=click.IntRange(min=0), help="Print at most so many records.")
@click.option("--body", type=click.Choice(["none", "text", "hex"]), default="none", help="Print bodies, too.")
@_JSON
def dump_command(
    directory: Path,
    config_file: Path | None,
    topic: str | None,
    queue_id: int | None,
    queue_offset: int | None,
    key: str | None,
    start_offset: int,
    end_offset: int | None,
    limit: int | None,
    body: str,
    is_json: bool,
) -> None:
    """Print the records of the commit log in DIRECTORY, one to a line."""
    wanted = Wanted(topic, queue_id, queue_offset, key.encode() if key else None, start_offset, end_offset)
    try:
        for message in islice(dump(_configuration(directory, config_file), wanted), limit):
            click.echo(_json(message, body) if is_json else _line(message, body))
    except BrokenPipeError:
        # Whoever read has read enough.
        raise
    except (StoreError, OSError) as error:
        raise click.ClickException(_why(error)) from error


def _why(error: StoreError | OSError) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)


def _time(millis: int) -> str:
    """Returns the number itself where damage has made it a time that no calendar has."""
    try:
        return datetime.fromtimestamp(millis / 1000).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)


def _line(message: Message, body: str) -> str:
    time = _time(message.store_timestamp)
    keys = " ".join(key for key in (message.get("UNIQ_KEY"), message.get("KEYS")) if key)
    where = f"{message.topic}/{message.queue_id}/{message.queue_offset}"
    shown = "" if body == "none" else f" {_body(message, body)!r}"
    return f"{message.physical_offset:>20} {len(message.body):>8} {time} {where} {keys}{shown}"


def _json(message: Message, body: str) -> str:
    fields = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.physical_offset,
        "storeTimestamp": message.store_timestamp,
        "bornTimestamp": message.born_timestamp,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "properties": message.parsed,
        "bodySize": len(message.body),
    }
    if body != "none":
        fields["body"] = _body(message, body)
    return msgspec.json.encode(fields).decode()


def _body(message: Message, body: str) -> str:
    """Returns the body as it was sent, decompressed if need be and if it can be."""
    data = message.body
    if is_compressed(message.sys_flag):
        with contextlib.suppress(CompressionError):
            data = decompress(data, message.sys_flag, _BODY_SIZE_MAX)
    return data.hex() if body == "hex" else data.decode("utf-8", "backslashreplace")


def _configuration(directory: Path, file: Path | None) -> StoreConfig:
    """Returns the settings a store must have been written with: its broker's, or what its files tell."""
    if file is None:
        _refuse_other_directory(directory)
    config = found_settings(directory)
    if file is not None:
        try:
            config.update(properties.parse(file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            why = getattr(error, "strerror", None) or error
            raise click.ClickException(f"configuration file {file} cannot be read: {why}") from error
        config.store_path_root_dir = directory
    return config


def _refuse_other_directory(directory: Path) -> None:
    """ClickException if nothing of a store is there: whoever named the wrong directory is not told that it is whole."""
    if _has_store(directory):
        return
    within = sorted(str(each) for each in directory.iterdir() if each.is_dir() and _has_store(each))
    hint = f"; look in {' or '.join(within[:3])}" if within else ""
    raise click.ClickException(f"{directory} is no store: it has no commitlog{hint}")


def _has_store(directory: Path) -> bool:
    return any((directory / part).is_dir() for part in ("commitlog", "consumequeue", "index"))
