"""`kerolox down` and `kerolox status`: stops and describes the cluster that `kerolox up` runs."""

import os
import signal
import time
from pathlib import Path

import click
import msgspec

from kerolox.cli.admin.java_times import Seconds
from kerolox.cli.echo import echo_json, echo_line
from kerolox.errors import ConfigurationError
from kerolox.local.folder import Folder, UpState, default_folder

# The exit code of `systemctl status` for a service that is not running.
_NOT_RUNNING = 3
_POLL_SECONDS = 0.02

_DATA = click.option("--data", type=Path, help="Data folder of the cluster.  [default: ~/.kerolox/up]")


@click.command(short_help="Stop the cluster that `kerolox up` started.")
@_DATA
@click.option(
    "--timeout", "timeout_seconds", type=Seconds(min=0), default=60, show_default=True, help="How long to wait."
)
def down(data: Path | None, timeout_seconds: float) -> None:
    """Stop the cluster that `kerolox up` started, and wait until it has stopped.

    Its data is kept.
    """
    folder, pid = _find_process(data)
    if pid is None:
        click.echo(f"No cluster runs in {folder.path}.")
        return
    started = time.monotonic()
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise click.ClickException(f"process {pid} belongs to another user: stop it as that user") from error
    while folder.holder() == pid:
        if time.monotonic() - started > timeout_seconds:
            raise click.ClickException(
                f"process {pid} did not stop within {timeout_seconds:g} s: wait, or kill it with `kill -9 {pid}`"
            )
        time.sleep(_POLL_SECONDS)
    click.echo(f"Stopped process {pid} in {time.monotonic() - started:.1f} s. All data is kept in {folder.path}.")


@click.command()
@_DATA
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def status(data: Path | None, is_json: bool) -> None:
    """Show the state of the cluster that `kerolox up` started.

    Exits with 0 if it is running and with 3 if it is not.
    """
    folder, pid = _find_process(data)
    state = folder.state()
    if state is not None and state.pid != pid:
        # The file is left over from a process that was killed.
        state = None
    if is_json:
        report = {"running": pid is not None, "data": str(folder.path)}
        if state is not None:
            report |= msgspec.to_builtins(state) | {"uptime_seconds": _uptime_seconds(state)}
        elif pid is not None:
            report["pid"] = pid
        echo_json(report)
    elif pid is None:
        click.echo(f"No cluster runs in {folder.path}. Start one with `kerolox up{folder.flag}`.")
    elif state is None:
        click.echo(f"Process {pid} is starting or stopping.")
    else:
        _show(state)
    if pid is None:
        raise SystemExit(_NOT_RUNNING)


def _find_process(data: Path | None) -> tuple[Folder, int | None]:
    """Return the data folder, and the process that holds it; None if no cluster is running."""
    folder = Folder(data or default_folder())
    try:
        return folder, folder.holder()
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from error


def _show(state: UpState) -> None:
    click.echo(f"Kerolox {state.version} has been running as process {state.pid} for {_uptime_seconds(state)} s.")
    click.echo(f"  {'NameServer':<16} {state.namesrv}")
    for broker in state.brokers:
        facts = [broker.address, *([broker.state] if broker.state != "running" else [])]
        if broker.pid != state.pid:
            facts.append(f"process {broker.pid}")
        if broker.restarts:
            facts.append("restarted" + (f" {broker.restarts} times" if broker.restarts > 1 else ""))
        echo_line(f"  {'Broker ' + broker.name:<16} {', '.join(facts)}")
    if state.dashboard is not None:
        click.echo(f"  {'Dashboard':<16} {state.dashboard}")
    for address in state.metrics_urls:
        click.echo(f"  {'Metrics':<16} {address}")
    click.echo(f"  {'Data':<16} {state.data}")


def _uptime_seconds(state: UpState) -> int:
    return max(0, int(time.time() - state.started / 1000))
