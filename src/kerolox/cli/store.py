"""`kerolox store`: look at a store directory, ours or RocketMQ's, without changing it."""

import sys
from datetime import datetime
from pathlib import Path

import click

from kerolox.message.peek import Peek
from kerolox.store.check import Report, check, dump
from kerolox.store.configuration import StoreConfig
from kerolox.store.errors import StoreError

_STORE = click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))


@click.group()
def store() -> None:
    """Verify a store directory, or print what is in it."""


@store.command("check")
@_STORE
def check_command(directory: Path) -> None:
    """Verify the log and the queues in DIRECTORY; ends with 1 if something is wrong."""
    config = _configuration(directory)
    with click.progressbar(length=100, label="reading the commit log", file=sys.stderr) as bar:
        try:
            report = check(config, lambda done, total: bar.update(done * 100 // max(total, 1) - bar.pos))
        except (StoreError, OSError) as error:
            raise click.ClickException(str(error)) from error
    _print(report)
    if report.complaints:
        raise SystemExit(1)


def _print(report: Report) -> None:
    click.echo(f"log      {report.first_offset} to {report.end_offset}, {report.records} records, {report.bytes} bytes")
    click.echo(f"queues   {report.queues}, {report.entries} entries")
    click.echo(
        f"stopped  {'cleanly' if report.is_clean else 'uncleanly, or still open: the next start will recover it'}"
    )
    for complaint in report.complaints:
        click.echo(f"WRONG    {complaint}")
    click.echo("whole" if not report.complaints else f"{len(report.complaints)} things are wrong")


@store.command("dump")
@_STORE
@click.option("--from", "start_offset", type=int, default=0, help="Begin at this offset of the log.")
@click.option("--count", type=int, help="Print at most so many records.")
def dump_command(directory: Path, start_offset: int, count: int | None) -> None:
    """Print the records of the commit log in DIRECTORY, one to a line."""
    try:
        for number, record in enumerate(dump(_configuration(directory), start_offset)):
            if count is not None and number >= count:
                break
            click.echo(_line(record))
    except (StoreError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _line(record: Peek) -> str:
    time = datetime.fromtimestamp(record.store_timestamp / 1000).isoformat(timespec="milliseconds")
    keys = b" ".join(key for key in (record.unique_key, record.keys) if key).decode(errors="replace")
    where = f"{record.topic}/{record.queue_id}/{record.queue_offset}"
    return f"{record.physical_offset:>20} {record.size:>8} {time} {where} {keys}"


def _configuration(directory: Path) -> StoreConfig:
    """Returns the settings a store must have been written with: the size of its files tells."""
    config = StoreConfig(store_path_root_dir=directory)
    for path in sorted(config.commit_log_directory.glob("[0-9]*"))[:1]:
        config.mapped_file_size_commit_log = path.stat().st_size or config.mapped_file_size_commit_log
    for path in sorted((directory / "consumequeue").glob("*/*/[0-9]*"))[:1]:
        config.mapped_file_size_consume_queue = path.stat().st_size or config.mapped_file_size_consume_queue
    return config
