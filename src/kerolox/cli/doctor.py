"""`kerolox doctor`: checks a cluster and this machine, and says what to do."""

import resource
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import msgspec

from kerolox.cli import checks
from kerolox.cli.admin.connecting import client as admin_client
from kerolox.cli.admin.connecting import options as connection_options
from kerolox.cli.checks import Finding, Level
from kerolox.cli.clients import connected, connecting_options, run
from kerolox.client.options import Options
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.routes import ClusterInfo

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "red"}
_MAPS = Path("/proc/sys/vm/max_map_count")


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print JSON, a finding to a line.")
@connecting_options
def doctor(is_json: bool, **connection: Any) -> None:
    """Check NameServers, brokers, their disks and clocks, and the limits of this machine; ends with 1 if one fails."""
    run(_examine(connected(**connection), connection, is_json))


async def _examine(options: Options, connection: dict[str, Any], is_json: bool) -> None:
    counts = dict.fromkeys(Level, 0)
    async for finding in _findings(options, connection):
        counts[finding.level] += 1
        if is_json:
            value = {"level": finding.level.value, "what": finding.what, "remedy": finding.remedy or None}
            click.echo(msgspec.json.encode(value))
        else:
            click.echo(click.style(f"{finding.level.value:<8}", fg=_COLOURS[finding.level]) + finding.what)
            if finding.remedy:
                click.echo(f"{'':<8}-> {finding.remedy}")
    if not is_json:
        click.echo(f"{counts[Level.FAILURE]} failed, {counts[Level.WARNING]} warnings, {counts[Level.OK]} fine")
    if counts[Level.FAILURE]:
        raise SystemExit(1)


async def _findings(options: Options, connection: dict[str, Any]) -> AsyncIterator[Finding]:
    known: dict[str, ClusterInfo] = {}
    for address in options.name_servers:
        error = None
        try:
            known[address] = await _asked(address, connection)
        except KeroloxError as failure:
            error = failure
        remedy = "start one (kerolox up), or give the address of one by -n or NAMESRV_ADDR"
        yield checks.reached("NameServer", address, error, remedy)
    if known:
        if len(known) > 1:
            yield checks.agreement(known)
        for finding in checks.masters(next(iter(known.values()))):
            yield finding
        async for finding in _of_brokers(options):
            yield finding
    for finding in checks.limits(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _maps()):
        yield finding


async def _asked(address: str, connection: dict[str, Any]) -> ClusterInfo:
    """Returns what one NameServer says, whatever the others do."""
    others = {name: value for name, value in connection.items() if name != "namesrv_addr"}
    async with admin_client(connection_options(address, **others)) as admin:
        return await admin.cluster.info()


async def _of_brokers(options: Options) -> AsyncIterator[Finding]:
    async with admin_client(options) as admin:
        for broker in await admin.cluster.brokers():
            remedy = "start it, open its port to this machine, or set brokerIP1 to an address that leads to it"
            yield checks.reached(f"broker {broker.name}/{broker.broker_id} at", broker.address, broker.error, remedy)
            found = checks.advertised(options.name_servers, broker)
            if found is not None:
                yield found
            for check in (checks.disk(broker), checks.clock(broker, options.clock.millis()), checks.load(broker)):
                if check is not None:
                    yield check


def _maps() -> int | None:
    try:
        return int(_MAPS.read_text())
    except (OSError, ValueError):
        return None
