"""`kerolox top`: shows rates and lag of a cluster, refreshed periodically."""

from typing import Any

import click

from kerolox.cli.admin.command import pause
from kerolox.cli.admin.connection_options import admin_client
from kerolox.cli.admin.java_times import Seconds
from kerolox.cli.admin.output import Table, Text
from kerolox.cli.admin.printer import OutputFormat, Printer, output_format
from kerolox.cli.client_options import connection_flags, run, to_client_options
from kerolox.cli.cluster_rates import Snapshot, broker_rows, group_rows, take_snapshot, topic_rows
from kerolox.client.options import Options


@click.command(short_help="Show rates and lag, refreshed periodically.")
@click.option(
    "-i",
    "--interval",
    default=2.0,
    show_default=True,
    type=Seconds(min=0.1),
    metavar="SECONDS",
    help="Time between refreshes.",
)
@click.option("-c", "--count", type=click.IntRange(min=1), help="Exit after this many refreshes; without it at Ctrl-C.")
@click.option("-l", "--limit", default=15, show_default=True, type=click.IntRange(min=1), help="Rows of each table.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON, one row per line.")
@connection_flags
def top(interval: float, count: int | None, limit: int, is_json: bool, **connection: Any) -> None:
    """Show the message rates of brokers and topics, and the lag of groups."""
    run(_top(to_client_options(**connection), interval, count, limit, output_format(is_json=is_json)))


async def _top(options: Options, interval: float, count: int | None, limit: int, output: OutputFormat) -> None:
    printer = Printer(output)
    async with admin_client(options) as admin:
        before = await take_snapshot(admin)
        while count is None or count > 0:
            await pause(interval)
            now = await take_snapshot(admin)
            printer.clear()
            for part in _parts(before, now, limit):
                printer.show(part)
            before = now
            count = None if count is None else count - 1


def _parts(before: Snapshot, now: Snapshot, limit: int) -> list[Table | Text]:
    return [
        Table(
            "%-24s %-22s %-16s %12.1f %12.1f %6s",
            ("#Broker", "#Address", "#Version", "#In/s", "#Out/s", "#Disk"),
            broker_rows(now),
        ),
        Text("\n"),
        Table("%-64s %12.1f %16d", ("#Topic", "#In/s", "#Messages"), topic_rows(before, now)[:limit]),
        Text("\n"),
        Table(
            "%-40s %-40s %7d %12.1f %12d %10s",
            ("#Group", "#Topic", "#Online", "#Out/s", "#Lag", "#Left"),
            group_rows(before, now)[:limit],
        ),
    ]
