"""`kerolox down` and `kerolox status`: what `kerolox up` left running."""

import os
import signal
import time
from pathlib import Path

import click
import msgspec

from kerolox.cli.admin.times import Seconds
from kerolox.errors import ConfigurationError
from kerolox.local.folder import Folder, UpState, default_folder

# What `systemctl status` ends with when nothing runs.
_NOT_RUNNING = 3
_LOOK_SECONDS = 0.02

_data = click.option("--data", type=Path, help="Folder that it was started with.  [default: ~/.kerolox/up]")


@click.command(short_help="Stop the cluster that `kerolox up` started.")
@_data
@click.option("--timeout", "timeout_seconds", type=Seconds(min=0), default=60, show_default=True)
def down(data: Path | None, timeout_seconds: float) -> None:
    """Stop the cluster that `kerolox up` started, and wait until it has ended.

    Its data is kept.
    """
    folder, pid = _found(data)
    if pid is None:
        click.echo(f"Nothing runs from {folder.path}.")
        return
    begun = time.monotonic()
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise click.ClickException(f"process {pid} is somebody else's: stop it as the user who started it") from error
    while folder.holder() == pid:
        if time.monotonic() - begun > timeout_seconds:
            raise click.ClickException(
                f"process {pid} has not ended within {timeout_seconds:g} s: wait, or end it with `kill -9 {pid}`"
            )
        time.sleep(_LOOK_SECONDS)
    click.echo(f"Stopped process {pid} in {time.monotonic() - begun:.1f} s. All data is kept in {folder.path}.")


@click.command()
@_data
@click.option("--json", "is_json", is_flag=True, help="For machines.")
def status(data: Path | None, is_json: bool) -> None:
    """Show what runs of the cluster that `kerolox up` started.

    Ends with 0 if it runs and with 3 if it does not.
    """
    folder, pid = _found(data)
    state = folder.state()
    if state is not None and state.pid != pid:
        # One that was killed has left it.
        state = None
    if is_json:
        told = {"running": pid is not None, "data": str(folder.path)}
        if state is not None:
            told |= msgspec.to_builtins(state) | {"uptime_seconds": _uptime_seconds(state)}
        elif pid is not None:
            told["pid"] = pid
        click.echo(msgspec.json.encode(told).decode())
    elif pid is None:
        click.echo(f"Nothing runs from {folder.path}. Start it with `kerolox up{folder.flag}`.")
    elif state is None:
        click.echo(f"Process {pid} is starting or ending.")
    else:
        _show(state)
    if pid is None:
        raise SystemExit(_NOT_RUNNING)


def _found(data: Path | None) -> tuple[Folder, int | None]:
    folder = Folder(data or default_folder())
    try:
        return folder, folder.holder()
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error


def _show(state: UpState) -> None:
    click.echo(f"Kerolox {state.version} runs as process {state.pid}, for {_uptime_seconds(state)} s.")
    click.echo(f"  {'NameServer':<16} {state.namesrv}")
    for broker in state.brokers:
        facts = [broker.address, *([broker.state] if broker.state != "running" else [])]
        if broker.pid != state.pid:
            facts.append(f"process {broker.pid}")
        if broker.restarts:
            facts.append("started again" + (f" {broker.restarts} times" if broker.restarts > 1 else ""))
        click.echo(f"  {'Broker ' + broker.name:<16} {', '.join(facts)}")
    if state.dashboard is not None:
        click.echo(f"  {'Dashboard':<16} {state.dashboard}")
    for address in state.metrics_urls:
        click.echo(f"  {'Metrics':<16} {address}")
    click.echo(f"  {'Data':<16} {state.data}")


def _uptime_seconds(state: UpState) -> int:
    return max(0, int(time.time() - state.started / 1000))
