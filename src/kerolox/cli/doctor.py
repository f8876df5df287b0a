"""`kerolox doctor`: checks a cluster and this machine, and says what to do."""

import resource
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from kerolox.admin import AdminClient
from kerolox.admin.agreement import View, alone, views
from kerolox.cli import checks, ports
from kerolox.cli.admin.screen import has_colours
from kerolox.cli.checks import Finding, Level
from kerolox.cli.clients import connected, connecting_options, run
from kerolox.client.options import Options
from kerolox.local.folder import default_folder

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "red"}
_MAPS = Path("/proc/sys/vm/max_map_count")
# Whoever looks for what is wrong should not have to wait for it as long as other tools do.
_TIMEOUT_SECONDS = 3.0


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print JSON, a finding to a line.")
@connecting_options
def doctor(is_json: bool, **connection: Any) -> None:
    """Check a cluster and this machine, and say what to do.

    It looks at NameServers and whether they agree, at brokers with their disks and clocks, and here at ports, the disk
    and limits; it ends with 1 if one of them fails.
    """
    run(_examine(connected(**connection), is_json))


async def _examine(options: Options, is_json: bool) -> None:
    counts = dict.fromkeys(Level, 0)
    async for finding in _findings(options):
        counts[finding.level] += 1
        if is_json:
            value = {"level": finding.level.value, "what": finding.what, "remedy": finding.remedy or None}
            click.echo(msgspec.json.encode(value))
        else:
            level = f"{finding.level.value:<8}"
            click.echo((click.style(level, fg=_COLOURS[finding.level]) if has_colours() else level) + finding.what)
            if finding.remedy:
                click.echo(f"{'':<8}-> {finding.remedy}")
    if not is_json:
        click.echo(f"{counts[Level.FAILURE]} failed, {counts[Level.WARNING]} warnings, {counts[Level.OK]} fine")
    if counts[Level.FAILURE]:
        raise SystemExit(1)


async def _findings(options: Options) -> AsyncIterator[Finding]:
    seen = await _asked(options)
    for view in seen:
        yield checks.answered(view.address, view.error)
    known = [view for view in seen if view.error is None]
    if len(known) > 1:
        yield checks.agreement(known)
    if known and known[0].info is not None:
        for finding in checks.masters(known[0].info):
            yield finding
        async for finding in _of_brokers(options):
            yield finding
    else:
        for number in checks.PORTS:
            yield checks.port(number, ports.is_free(number), ports.listener(number))
    yield _local_disk(default_folder())
    for finding in checks.limits(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _maps()):
        yield finding


async def _asked(options: Options) -> list[View]:
    """Returns what each NameServer says, whatever the others do."""
    async with AsyncExitStack() as stack:
        clients = {
            address: await stack.enter_async_context(_client(alone(options, address)))
            for address in options.name_servers
        }
        return await views(clients)


async def _of_brokers(options: Options) -> AsyncIterator[Finding]:
    async with _client(options) as admin:
        for broker in await admin.cluster.brokers():
            remedy = "start it, open its port to this machine, or set brokerIP1 to an address that leads to it"
            yield checks.reached(f"broker {broker.name}/{broker.broker_id} at", broker.address, broker.error, remedy)
            found = checks.advertised(options.name_servers, broker)
            if found is not None:
                yield found
            for check in (checks.disk(broker), checks.clock(broker, options.clock.millis()), checks.load(broker)):
                if check is not None:
                    yield check


def _client(options: Options) -> AdminClient:
    return AdminClient(options=options, timeout_seconds=_TIMEOUT_SECONDS)


def _local_disk(folder: Path) -> Finding:
    try:
        # It is made with the first start.
        there = next(it for it in (folder, *folder.parents) if it.exists())
        usage = shutil.disk_usage(there)
    except OSError as error:
        return checks.no_folder(folder, error)
    return checks.local_disk(folder, usage.used, usage.free)


def _maps() -> int | None:
    try:
        return int(_MAPS.read_text())
    except (OSError, ValueError):
        return None
