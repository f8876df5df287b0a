"""`kerolox up`: runs a whole cluster on this machine."""

import errno
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import click

from kerolox.cli.server_options import NotStarted, describe_failure, exit_error, serve, stop_on_signals
from kerolox.errors import ConfigurationError, ServiceFailed, reason
from kerolox.local.folder import Folder, UpState, default_folder
from kerolox.local.processes import our_command
from kerolox.local.up import BROKERS_MAX, Up, UpOptions, log_options
from kerolox.runtime import event_loop
from kerolox.runtime.gc_tuning import settle
from kerolox.runtime.logs import LogFormat, logging_as
from kerolox.runtime.optional_deps import install_command
from kerolox.store.errors import StoreError

_IMPORTED_AT = time.monotonic()
_DETACHED_SECONDS_MAX = 180.0
_READY = "Kerolox is ready"
_NOT_WRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR}


_PORT = click.IntRange(0, 65535)


@click.command(short_help="Run a whole cluster on this machine.")
@click.option("--data", type=Path, help="Folder of all data, settings and logs.  [default: ~/.kerolox/up]")
@click.option("--brokers", type=click.IntRange(1, BROKERS_MAX), help="Number of brokers, each in its own process.")
@click.option(
    "--namesrv-port", type=_PORT, default=9876, show_default=True, help="Port of the NameServer; 0 takes a free one."
)
@click.option(
    "--broker-port", type=_PORT, default=10911, show_default=True, help="Port of the first broker; 0 takes a free one."
)
@click.option(
    "--dashboard-port", type=_PORT, default=8080, show_default=True, help="Port of the dashboard; 0 takes a free one."
)
@click.option("--dashboard/--no-dashboard", "with_dashboard", default=True, help="Whether to run the dashboard.")
@click.option("--users", type=Path, help="File of the dashboard's users; without it, it serves this machine only.")
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 accepts others.")
@click.option("--advertise", default="127.0.0.1", show_default=True, help="IP address at which clients reach it.")
@click.option("--metrics-port", type=_PORT, help="Port of /metrics for Prometheus; 0 takes a free one.")
@click.option(
    "--log-format", type=click.Choice([kind.value for kind in LogFormat]), help="Format of logs.  [default: text]"
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

    All data is kept in one folder and used again at the next start. Ctrl-C or `kerolox down` stops the cluster.
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
            event_loop.run(_run(options, is_detached=detached))
    except (ConfigurationError, StoreError, ServiceFailed, OSError) as error:
        raise exit_error(error, _describe_failure(error, folder)) from error


async def _run(options: UpOptions, *, is_detached: bool) -> None:
    stop = stop_on_signals()
    cluster = Up(options, ready_seconds=_process_age_seconds)

    def on_ready() -> None:
        settle()
        _print_ready(cluster.state, options, is_detached=is_detached)
        if is_detached:
            _close_output()

    if await serve(cluster, stop, on_ready) and not is_detached:
        click.echo(f"Stopped. All data is kept in {cluster.state.data}.")


def _print_ready(state: UpState, options: UpOptions, *, is_detached: bool) -> None:
    lines = [("NameServer", state.namesrv)]
    lines += [(f"Broker {broker.name}", broker.address) for broker in state.brokers]
    if options.dashboard_port is not None:
        lines.append(("Dashboard", state.dashboard or f"not installed: {install_command('dashboard')}"))
    lines += [("Metrics", url) for url in state.metrics_urls]
    lines.append(("Data", state.data))
    lines.append(("Stop it", f"kerolox down{Folder(options.data).flag}" + ("" if is_detached else ", or Ctrl-C")))
    click.echo(f"{_READY} after {state.ready_seconds:.2f} s (process {state.pid}).")
    for name, value in lines:
        click.echo(f"  {name:<16} {value}")


def _process_age_seconds() -> float:
    """Return the age of this process according to /proc; without /proc, the time since this module was imported."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, IndexError, ValueError):
        return time.monotonic() - _IMPORTED_AT


def _describe_failure(error: Exception, folder: Folder) -> str:
    """Return the error of a server with its own settings and flags replaced by the flags of `kerolox up`."""
    if isinstance(error, OSError) and error.errno in _NOT_WRITABLE:
        return f"folder {folder.path} cannot be used: {reason(error)}; choose another with --data"
    text = describe_failure(error)
    if text.startswith("log file "):
        return f"{text}; choose another folder with --data"
    for key, flag in (("bindAddress=", "--bind "), ("brokerIP1=", "--advertise "), ("brokerIP1", "--advertise")):
        text = text.replace(key, flag)
    problem, _, _ = text.partition("; give another")
    if "cannot listen on" not in problem or "--bind" in problem:
        return text.replace("--store (storePathRootDir)", "--data")
    flags = "--namesrv-port, --broker-port, --metrics-port and --dashboard-port"
    return f"{problem}; choose other ports with {flags} (0 takes a free one)"


def _detach(options: UpOptions) -> None:
    """Start the cluster in a background process, and return when that has printed that it is ready."""
    child = subprocess.Popen(  # noqa: S603
        our_command("up", "--detached", *_arguments(options)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    timeout = threading.Timer(_DETACHED_SECONDS_MAX, child.kill)
    timeout.start()
    try:
        # The child closes its output when it is ready (_close_output), and exits if it cannot start.
        output = child.stdout.read()
    except KeyboardInterrupt:
        # The child is in a session of its own, which Ctrl-C does not reach.
        child.terminate()
        child.communicate()
        raise
    finally:
        timeout.cancel()
    # Warnings may come before it.
    if any(line.startswith(_READY) for line in output.splitlines()):
        click.echo(output, nl=False)
        return
    child.wait()
    last = output.strip().rpartition("\n")[2] or f"it was not ready within {_DETACHED_SECONDS_MAX:g} s"
    raise NotStarted(last.removeprefix("Error: "))


def _arguments(options: UpOptions) -> list[str]:
    """Return the command-line arguments that `options` came from, for the child process."""
    flags: dict[str, Any] = {
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
    arguments = [str(part) for pair in flags.items() if pair[1] is not None for part in pair]
    return arguments if options.dashboard_port is not None else [*arguments, "--no-dashboard"]


def _close_output() -> None:
    """Redirect stdout and stderr to /dev/null, which tells the parent that we are ready; logs go to files."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(devnull, descriptor)
    os.close(devnull)
