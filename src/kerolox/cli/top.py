"""`kerolox top`: rates and lag of a cluster, again and again."""

from typing import Any

import click

from kerolox.cli.admin.connecting import client as admin_client
from kerolox.cli.admin.declaring import pause
from kerolox.cli.admin.parts import Table, Text
from kerolox.cli.admin.screen import Form, Screen, form
from kerolox.cli.admin.times import Seconds
from kerolox.cli.clients import connected, connecting_options, run
from kerolox.cli.rates import Look, broker_rows, group_rows, look, topic_rows
from kerolox.client.options import Options


@click.command(short_help="Show rates and lag, again and again.")
@click.option("-i", "--interval", default=2.0, show_default=True, type=Seconds(min=0.1), metavar="SECONDS")
@click.option("-c", "--count", type=click.IntRange(min=1), help="Look so many times; else until Ctrl-C.")
@click.option("-l", "--limit", default=15, show_default=True, type=click.IntRange(min=1), help="Rows of each table.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON, a row to a line.")
@connecting_options
def top(interval: float, count: int | None, limit: int, is_json: bool, **connection: Any) -> None:
    """Show what goes through brokers and topics, and what waits for groups."""
    run(_top(connected(**connection), interval, count, limit, form(is_json=is_json)))


async def _top(options: Options, interval: float, count: int | None, limit: int, shown_as: Form) -> None:
    screen = Screen(shown_as)
    async with admin_client(options) as admin:
        before = await look(admin)
        while count is None or count > 0:
            await pause(interval)
            now = await look(admin)
            screen.clear()
            for part in _parts(before, now, limit):
                screen.show(part)
            before = now
            count = None if count is None else count - 1


def _parts(before: Look, now: Look, limit: int) -> list[Table | Text]:
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
