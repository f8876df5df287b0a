"""`kerolox up`: a whole cluster on this machine, with one command."""

import errno
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import click

from kerolox.cli.servers import NotStarted, ended, on_signals, started, until_told, with_remedy
from kerolox.errors import ConfigurationError, reason
from kerolox.local.children import our_command
from kerolox.local.folder import Folder, UpState, default_folder
from kerolox.local.up import BROKERS_MAX, Up, UpOptions, log_options
from kerolox.runtime import server_loop
from kerolox.runtime.extras import installing
from kerolox.runtime.logs import LogFormat, logging_as
from kerolox.runtime.memory import settle
from kerolox.store.errors import StoreError

_BEGAN = time.monotonic()
_DETACHED_SECONDS_MAX = 180.0
_READY = "Kerolox is ready"
_NOT_WRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR}


@click.command(short_help="Run a whole cluster on this machine.")
@click.option("--data", type=Path, help="Folder of all data, settings and logs.  [default: ~/.kerolox/up]")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), help="So many, each in a process of its own.")
@click.option("--namesrv-port", type=click.IntRange(0, 65535), default=9876, show_default=True, help="0: a free one.")
@click.option("--broker-port", type=click.IntRange(0, 65535), default=10911, show_default=True, help="0: a free one.")
@click.option("--dashboard-port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one.")
@click.option("--dashboard/--no-dashboard", "with_dashboard", default=True, help="Whether to have one.")
@click.option("--users", type=Path, help="File of the dashboard's users; without it, it serves this machine only.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: for others, too.")
@click.option("--advertise", default="127.0.0.1", show_default=True, help="IP address at which clients reach it.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Tell Prometheus at this port; 0: a free one.")
@click.option(
    "--log-format", type=click.Choice([kind.value for kind in LogFormat]), help="Of log lines.  [default: text]"
)
@click.option("-d", "--detach", is_flag=True, help="Return when it is ready, and leave it running.")
@click.option("--detached", is_flag=True, hidden=True)
def up(
    data: Path | None,
    brokers: int | None,
    namesrv_port: int,
    broker_port: int,
    dashboard_port: int,
    with_dashboard: bool,
    users: Path | None,
    bind: str,
    advertise: str,
    metrics_port: int | None,
    log_format: str | None,
    detach: bool,
    detached: bool,
) -> None:
    """Run a whole cluster on this machine: NameServer, broker and dashboard.

    Everything it keeps is in one folder, and is there again with the next start. Ctrl-C or `kerolox down` ends it.
    """
    options = UpOptions(
        data=data or default_folder(),
        host=bind,
        advertised=advertise,
        namesrv_port=namesrv_port,
        broker_port=broker_port,
        dashboard_port=dashboard_port if with_dashboard else None,
        users_file=users,
        brokers=brokers,
        metrics_port=metrics_port,
        log_format=None if log_format is None else LogFormat(log_format),
    )
    if detach:
        _detach(options)
        return
    folder = Folder(options.data)
    try:
        with folder.taken(), logging_as(log_options(options)):
            server_loop.run(_run(options, is_detached=detached))
    except (ConfigurationError, StoreError, OSError) as error:
        raise ended(error, _with_remedy(error, folder)) from error


async def _run(options: UpOptions, *, is_detached: bool) -> None:
    stop = on_signals()
    running = await started(Up(options, ready_seconds=_since_spawned), stop)
    if running is None:
        return
    try:
        settle()
        _say_ready(running.state, options, is_detached=is_detached)
        if is_detached:
            _leave_terminal()
        await until_told(stop, running.wait())
    finally:
        await running.__aexit__(None, None, None)
    if not is_detached:
        click.echo(f"Stopped. All data is kept in {running.state.data}.")


def _say_ready(state: UpState, options: UpOptions, *, is_detached: bool) -> None:
    lines = [("NameServer", state.namesrv)]
    lines += [(f"Broker {broker.name}", broker.address) for broker in state.brokers]
    if options.dashboard_port is not None:
        lines.append(("Dashboard", state.dashboard or f"not installed: {installing('dashboard')}"))
    lines += [("Metrics", url) for url in state.metrics_urls]
    lines.append(("Data", state.data))
    lines.append(("Stop it", f"kerolox down{Folder(options.data).flag}" + ("" if is_detached else ", or Ctrl-C")))
    click.echo(f"{_READY} after {state.ready_seconds:.2f} s (process {state.pid}).")
    for what, told in lines:
        click.echo(f"  {what:<16} {told}")


def _since_spawned() -> float:
    """Returns how long ago this process was started, as the system tells it; else since this module was read."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, IndexError, ValueError):
        return time.monotonic() - _BEGAN


def _with_remedy(error: Exception, folder: Folder) -> str:
    """A part that can be run alone has keys and flags of its own; here they are others."""
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN:
        return f"folder {folder.path} cannot be used: {reason(error)}; name another with --data"
    told = with_remedy(error)
    if told.startswith("log file "):
        return f"{told}; name another folder with --data"
    for key, flag in (("bindAddress=", "--bind "), ("brokerIP1=", "--advertise "), ("brokerIP1", "--advertise")):
        told = told.replace(key, flag)
    what, _, _ = told.partition("; give another")
    if "cannot listen on" not in what or "--bind" in what:
        return told.replace("--store (storePathRootDir)", "--data")
    flags = "--namesrv-port, --broker-port, --metrics-port and --dashboard-port"
    return f"{what}; choose others with {flags} (0 takes a free one)"


def _detach(options: UpOptions) -> None:
    """Starts the same in a process that nobody waits for, and returns when that has said that it is ready."""
    child = subprocess.Popen(  # noqa: S603
        our_command("up", "--detached", *_arguments(options)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    patience = threading.Timer(_DETACHED_SECONDS_MAX, child.kill)
    patience.start()
    try:
        # It lets go of its output when it is ready, and ends if it never will be.
        said = child.stdout.read()
    except KeyboardInterrupt:
        # Ctrl-C does not reach it where it runs.
        child.terminate()
        child.communicate()
        raise
    finally:
        patience.cancel()
    # Perhaps after a warning.
    if any(line.startswith(_READY) for line in said.splitlines()):
        click.echo(said, nl=False)
        return
    child.wait()
    last = said.strip().rpartition("\n")[2] or f"it was not ready within {_DETACHED_SECONDS_MAX:g} s"
    raise NotStarted(last.removeprefix("Error: "))


def _arguments(options: UpOptions) -> list[str]:
    given: dict[str, Any] = {
        "--data": Folder(options.data).path,
        "--brokers": options.brokers,
        "--namesrv-port": options.namesrv_port,
        "--broker-port": options.broker_port,
        "--dashboard-port": options.dashboard_port,
        "--users": options.users_file,
        "--bind": options.host,
        "--advertise": options.advertised,
        "--metrics-port": options.metrics_port,
        "--log-format": options.log_format and options.log_format.value,
    }
    arguments = [str(part) for pair in given.items() if pair[1] is not None for part in pair]
    return arguments if options.dashboard_port is not None else [*arguments, "--no-dashboard"]


def _leave_terminal() -> None:
    """Lets go of what this process was started from; from now on it speaks through its log files."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
