"""`kerolox dashboard`: a cluster in a browser, until told to stop."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from kerolox.cli.clients import connected, connecting_options
from kerolox.cli.servers import log_to_stderr, on_signals, until_told
from kerolox.errors import ConfigurationError
from kerolox.runtime.extras import installing
from kerolox.runtime.home import home
from kerolox.runtime.service import Supervisor


@click.command()
@connecting_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; others need --users.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--users", "users_file", type=click.Path(path_type=Path, dir_okay=False), help="Have people log in.")
@click.option("--allowed-host", "allowed_hosts", multiple=True, help="A name that browsers may know it by; several.")
@click.option("--read-only", is_flag=True, help="Nobody changes anything.")
@click.option(
    "--add-user",
    metavar="NAME",
    help="Ask for a password (or read a line), add the user, and end.",
)
@click.option("--reader", is_flag=True, help="With --add-user: one who changes nothing.")
def dashboard(
    host: str,
    port: int,
    users_file: Path | None,
    allowed_hosts: tuple[str, ...],
    read_only: bool,
    add_user: str | None,
    reader: bool,
    **connection: Any,
) -> None:
    """Show a cluster in a browser."""
    try:
        from kerolox.dashboard import users
        from kerolox.dashboard.server import Dashboard, DashboardOptions
    except ImportError as error:
        missing = f"the dashboard needs packages that are not installed ({error.name})"
        raise click.ClickException(f"{missing}: {installing('dashboard')}") from None
    if add_user is not None:
        _add(users.add, users_file or home() / "dashboard-users.json", add_user, reader)
        return
    options = DashboardOptions(
        client=connected(**connection),
        host=host,
        port=port,
        users_file=users_file,
        allowed_hosts=tuple(name.lower() for name in allowed_hosts),
        read_only=read_only,
    )
    log_to_stderr()
    try:
        asyncio.run(_serve(Dashboard(options)))
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None


def _add(add: Any, path: Path, name: str, is_reader: bool) -> None:
    password = _password(name)
    try:
        add(path, name, password, is_reader=is_reader)
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name} may log in. Start the dashboard with --users {path}")


def _password(name: str) -> str:
    """Asks at a terminal; a script gives a line."""
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise click.ClickException("no password: run it in a terminal, or give it as a line on standard input")
    return line


async def _serve(dashboard: Any) -> None:
    stop = on_signals()
    async with Supervisor(dashboard) as running:
        click.echo(f"The dashboard is at {dashboard.url}  (Ctrl-C ends it)")
        await until_told(stop, running.wait())
