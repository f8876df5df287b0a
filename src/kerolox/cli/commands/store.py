"""`kerolox store`: checks, repairs and prints a store directory of Kerolox or RocketMQ."""

import contextlib
import sys
from datetime import datetime
from itertools import islice
from pathlib import Path

import click
import msgspec

from kerolox.cli.echo import echo_line
from kerolox.errors import ConfigurationError, reason
from kerolox.message.compression import decompress
from kerolox.message.errors import CompressionError
from kerolox.message.message import Message
from kerolox.message.sysflag import is_compressed
from kerolox.runtime.text import properties
from kerolox.runtime.text.terminal import escape_json, escape_line
from kerolox.store.check.check import check
from kerolox.store.check.dump import DumpFilter, dump
from kerolox.store.check.file_sizes import detect_settings
from kerolox.store.check.repair import repair_queue_types
from kerolox.store.check.report import Report
from kerolox.store.config import StoreConfig
from kerolox.store.errors import StoreError

_BODY_SIZE_MAX = 64 * 1024 * 1024

_STORE = click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
_CONFIG = click.option(
    "-c",
    "--configFile",
    "config_file",
    type=Path,
    help="Properties file of its broker, needed if file sizes cannot be detected.",
)
_JSON = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


@click.group()
def store() -> None:
    """Verify a store directory, or print its records."""


@store.command("check", short_help="Verify the store in DIRECTORY; exits with 1 if it is damaged.")
@_STORE
@_CONFIG
@click.option(
    "--repair",
    "is_repaired",
    is_flag=True,
    help="First remove queue.type=BatchCQ from topics that have no such queue: RocketMQ 5.x would not start with it.",
)
@_JSON
def check_command(directory: Path, config_file: Path | None, is_repaired: bool, is_json: bool) -> None:
    """Verify log, queues, index, checkpoint, tables and timer in DIRECTORY; exits with 1 if one is damaged.

    Without --repair nothing is changed, and the broker may be running. With --repair it must be stopped.
    """
    try:
        config = _configuration(directory, config_file)
        repaired = repair_queue_types(directory) if is_repaired else []
        with click.progressbar(length=1000, label="reading the store", file=sys.stderr) as bar:
            report = check(config, lambda done, total: bar.update(done * 1000 // max(total, 1) - bar.pos))
    except (StoreError, OSError) as error:
        raise click.ClickException(_reason(error)) from error
    report.notes += [f"repaired: queue.type=BatchCQ was removed from topic {topic}" for topic in repaired]
    if is_json:
        click.echo(escape_json(msgspec.json.format(msgspec.json.encode(report), indent=2).decode()))
    else:
        _print(report)
    if not report.is_whole:
        raise SystemExit(1)


def _print(report: Report) -> None:
    stopped = "cleanly" if report.is_clean else "in use, or not stopped cleanly: the next start will recover it"
    rows = [
        ("log", f"{report.first_offset} to {report.end_offset}, {report.records} records, {report.bytes} bytes"),
        ("queues", f"{report.queues}, {report.entries} entries" + (f", {report.units} units" if report.units else "")),
        ("index", f"{report.index_files} files, {report.index_entries} entries"),
        ("tables", f"{report.tables}"),
        ("timer", f"{report.timer_units} units, {report.timer_slots} slots due later"),
        ("stopped", stopped),
        *(("note", note) for note in report.notes),
        *(("WRONG", complaint) for complaint in report.complaints),
    ]
    if report.complaints_left_out:
        rows.append(("WRONG", f"and {report.complaints_left_out} more"))
    for name, text in rows:
        echo_line(f"{name:<9}{text}")
    problems = len(report.complaints) + report.complaints_left_out
    click.echo("whole" if not problems else f"{problems} {'problem' if problems == 1 else 'problems'} found")


@store.command("dump")
@_STORE
@_CONFIG
@click.option("--topic", help="Records of this topic only.")
@click.option("--queue", "queue_id", type=int, help="Records of this queue only.")
@click.option("--queue-offset", type=int, help="Start at this offset of the queue.")
@click.option("--key", help="Records with this key or unique key only.")
@click.option("--from", "start_offset", type=int, default=0, help="Start at this physical offset of the log.")
@click.option("--to", "end_offset", type=int, help="Stop before this physical offset of the log.")
@click.option("--limit", "--count", type=click.IntRange(min=0), help="Print at most this many records.")
@click.option(
    "--body", type=click.Choice(["none", "text", "hex"]), default="none", help="Print bodies as text or hex, too."
)
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
    """Print the records of the commit log in DIRECTORY, one per line."""
    wanted = DumpFilter(topic, queue_id, queue_offset, key.encode() if key else None, start_offset, end_offset)
    try:
        for message in islice(dump(_configuration(directory, config_file), wanted), limit):
            click.echo(escape_json(_json(message, body)) if is_json else escape_line(_line(message, body)))
    except BrokenPipeError:
        # The reader closed the pipe; click exits quietly.
        raise
    except (StoreError, OSError) as error:
        raise click.ClickException(_reason(error)) from error


def _reason(error: StoreError | OSError) -> str:
    return reason(error) if isinstance(error, OSError) else str(error)


def _time(millis: int) -> str:
    """Return an ISO time, or the number itself if it is out of the range of dates (damaged record)."""
    try:
        return datetime.fromtimestamp(millis / 1000).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(millis)


def _line(message: Message, body: str) -> str:
    time = _time(message.store_timestamp)
    keys = " ".join(key for key in (message.get("UNIQ_KEY"), message.get("KEYS")) if key)
    position = f"{message.topic}/{message.queue_id}/{message.queue_offset}"
    body_text = "" if body == "none" else f" {_body(message, body)!r}"
    return f"{message.physical_offset:>20} {len(message.body):>8} {time} {position} {keys}{body_text}"


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
    """Return the body, decompressed if it is compressed and intact."""
    data = message.body
    if is_compressed(message.sys_flag):
        with contextlib.suppress(CompressionError):
            data = decompress(data, message.sys_flag, _BODY_SIZE_MAX)
    return data.hex() if body == "hex" else data.decode("utf-8", "backslashreplace")


def _configuration(directory: Path, file: Path | None) -> StoreConfig:
    """Return the settings of the store: those of its broker's file over those detected from its files."""
    if file is None:
        _refuse_other_directory(directory)
    config = detect_settings(directory)
    if file is not None:
        try:
            config.update(properties.parse(file.read_text("utf-8")))
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            why = getattr(error, "strerror", None) or error
            raise click.ClickException(f"configuration file {file} cannot be read: {why}") from error
        config.store_path_root_dir = directory
    return config


def _refuse_other_directory(directory: Path) -> None:
    """Raise ClickException if this is not a store: an empty store would be reported as whole."""
    if _has_store(directory):
        return
    stores = sorted(str(each) for each in directory.iterdir() if each.is_dir() and _has_store(each))
    hint = f"; try {' or '.join(stores[:3])}" if stores else ""
    raise click.ClickException(f"{directory} is not a store: it has no commitlog{hint}")


def _has_store(directory: Path) -> bool:
    return any((directory / part).is_dir() for part in ("commitlog", "consumequeue", "index"))
