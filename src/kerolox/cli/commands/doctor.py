"""`kerolox doctor`: checks a cluster and this machine, and suggests remedies."""

import contextlib
import resource
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from kerolox.admin import AdminClient
from kerolox.admin.consistency import View, alone, views
from kerolox.cli import doctor_checks
from kerolox.cli.admin.printer import has_colours
from kerolox.cli.client_options import connection_flags, run, to_client_options
from kerolox.cli.doctor_checks import Finding, Level
from kerolox.cli.echo import echo_json, echo_line
from kerolox.client.options import Options
from kerolox.local.folder import default_folder
from kerolox.runtime.text.terminal import escape_line

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "red"}
_MAX_MAP_COUNT = Path("/proc/sys/vm/max_map_count")
# Shorter than that of other commands: some servers are expected not to answer.
_TIMEOUT_SECONDS = 3.0
# TCP_LISTEN in the `st` column of Linux's /proc/net/tcp.
_LISTENING = "0A"
_SOCKET_TABLES = ("net/tcp", "net/tcp6")


@click.command()
@click.option("--json", "is_json", is_flag=True, help="Print JSON, one finding per line.")
@connection_flags
def doctor(is_json: bool, **connection: Any) -> None:
    """Check a cluster and this machine, and suggest remedies.

    Checks that NameServers answer and agree, that brokers answer and their disks and clocks are in order, and the
    ports, disk and limits of this machine. Exits with 1 if a check fails.
    """
    run(_examine(to_client_options(**connection), is_json))


async def _examine(options: Options, is_json: bool) -> None:
    counts = dict.fromkeys(Level, 0)
    async for finding in _findings(options):
        counts[finding.level] += 1
        if is_json:
            echo_json({"level": finding.level.value, "what": finding.what, "remedy": finding.remedy or None})
        else:
            level = f"{finding.level.value:<8}"
            click.echo(
                (click.style(level, fg=_COLOURS[finding.level]) if has_colours() else level) + escape_line(finding.what)
            )
            if finding.remedy:
                echo_line(f"{'':<8}-> {finding.remedy}")
    if not is_json:
        click.echo(f"{counts[Level.FAILURE]} failed, {counts[Level.WARNING]} warnings, {counts[Level.OK]} fine")
    if counts[Level.FAILURE]:
        raise SystemExit(1)


async def _findings(options: Options) -> AsyncIterator[Finding]:
    found = await _name_server_views(options)
    for view in found:
        yield doctor_checks.check_name_server(view.address, view.error)
    known = [view for view in found if view.error is None]
    if len(known) > 1:
        yield doctor_checks.check_agreement(known)
    if known and known[0].info is not None:
        for finding in doctor_checks.check_masters(known[0].info):
            yield finding
        async for finding in _broker_findings(options):
            yield finding
    else:
        for number in doctor_checks.PORTS:
            yield doctor_checks.check_port(number, is_port_free(number), listening_process(number))
    yield _local_disk(default_folder())
    for finding in doctor_checks.check_limits(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _map_count_max()):
        yield finding


async def _name_server_views(options: Options) -> list[View]:
    """Return what each NameServer answers by itself, with a client each."""
    async with AsyncExitStack() as stack:
        clients = {
            address: await stack.enter_async_context(_client(alone(options, address)))
            for address in options.name_servers
        }
        return await views(clients)


async def _broker_findings(options: Options) -> AsyncIterator[Finding]:
    async with _client(options) as admin:
        for broker in await admin.cluster.brokers():
            remedy = "start it, open its port to this machine, or set its brokerIP1 to an address that is reachable"
            yield doctor_checks.check_reachable(
                f"broker {broker.name}/{broker.broker_id} at", broker.address, broker.error, remedy
            )
            for finding in (
                doctor_checks.check_advertised_address(options.name_servers, broker),
                doctor_checks.check_disk(broker),
                doctor_checks.check_clock(broker, options.clock.millis()),
                doctor_checks.check_load(broker),
            ):
                if finding is not None:
                    yield finding


def _client(options: Options) -> AdminClient:
    return AdminClient(options=options, timeout_seconds=_TIMEOUT_SECONDS)


def is_port_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listening_process(port: int, proc: Path = Path("/proc")) -> str | None:
    """Return e.g. `process 123 (java)`, found in Linux's /proc.

    None if nothing listens there, or if it is a process of another user.
    """
    sockets = _listening_sockets(port, proc)
    if not sockets:
        return None
    for process in proc.glob("[0-9]*"):
        # Skip processes that have ended meanwhile, or that we may not inspect.
        with contextlib.suppress(OSError):
            if any(_is_one_of(descriptor, sockets) for descriptor in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return None


def _is_one_of(descriptor: Path, sockets: set[str]) -> bool:
    try:
        return str(descriptor.readlink()) in sockets
    except OSError:
        return False


def _listening_sockets(port: int, proc: Path) -> set[str]:
    """Return the link targets (`socket:[inode]`) that descriptors of these sockets have in /proc/PID/fd."""
    found = set()
    for table in _SOCKET_TABLES:
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                found.add(f"socket:[{inode}]")
    return found


def _local_disk(folder: Path) -> Finding:
    try:
        # The first start creates the folder; until then, look at the parent that exists.
        existing = next(it for it in (folder, *folder.parents) if it.exists())
        usage = shutil.disk_usage(existing)
    except OSError as error:
        return doctor_checks.unusable_folder(folder, error)
    return doctor_checks.check_local_disk(folder, usage.used, usage.free)


def _map_count_max() -> int | None:
    try:
        return int(_MAX_MAP_COUNT.read_text())
    except (OSError, ValueError):
        return None
