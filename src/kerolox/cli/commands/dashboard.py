"""`kerolox dashboard`: serves the web dashboard until it is stopped."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from kerolox.cli.client_options import connection_flags, to_client_options
from kerolox.cli.server_options import log_to_stderr, serve, stop_on_signals
from kerolox.errors import ConfigurationError, ServiceFailed
from kerolox.runtime.optional_deps import install_command
from kerolox.runtime.service import Supervisor
from kerolox.runtime.user_dir import home


@click.command()
@connection_flags
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; one that is not loopback needs --users.",
)
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option(
    "--users", "users_file", type=click.Path(path_type=Path, dir_okay=False), help="File of users; they must log in."
)
@click.option(
    "--allowed-host", "allowed_hosts", multiple=True, help="Host name that browsers may use; may be repeated."
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a reverse proxy whose X-Forwarded-For and -Proto are trusted; may be repeated.",
)
@click.option("--read-only", is_flag=True, help="Refuse all changes.")
@click.option(
    "--add-user",
    metavar="NAME",
    help="Ask for a password (or read it from standard input), add this user, and exit.",
)
@click.option("--reader", is_flag=True, help="With --add-user: the user may not change anything.")
def dashboard(
    host: str,
    port: int,
    users_file: Path | None,
    allowed_hosts: tuple[str, ...],
    trusted_proxies: tuple[str, ...],
    read_only: bool,
    add_user: str | None,
    reader: bool,
    **connection: Any,
) -> None:
    """Run the web dashboard of a cluster."""
    try:
        from kerolox.dashboard.http import users
        from kerolox.dashboard.server import Dashboard, DashboardOptions
    except ImportError as error:
        missing = f"the dashboard needs packages that are not installed ({error.name})"
        raise click.ClickException(f"{missing}: {install_command('dashboard')}") from None
    if add_user is not None:
        _add_user(users.add, users_file or home() / "dashboard-users.json", add_user, is_reader=reader)
        return
    options = DashboardOptions(
        client=to_client_options(**connection),
        host=host,
        port=port,
        users_file=users_file,
        allowed_hosts=tuple(name.lower() for name in allowed_hosts),
        trusted_proxies=trusted_proxies,
        read_only=read_only,
    )
    log_to_stderr()
    try:
        asyncio.run(_serve(Dashboard(options)))
    except (ConfigurationError, ServiceFailed) as error:
        raise click.ClickException(str(error)) from None


def _add_user(add: Any, path: Path, name: str, *, is_reader: bool) -> None:
    password = _read_password(name)
    try:
        add(path, name, password, is_reader=is_reader)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name} may log in. Start the dashboard with --users {path}")


def _read_password(name: str) -> str:
    """Prompt for it on a terminal; otherwise read a line of standard input."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise click.ClickException("no password: run this in a terminal, or write the password to standard input")
    return line


async def _serve(dashboard: Any) -> None:
    stop = stop_on_signals()

    def on_ready() -> None:
        click.echo(f"The dashboard is at {dashboard.url}  (Ctrl-C stops it)")

    await serve(Supervisor(dashboard), stop, on_ready)
