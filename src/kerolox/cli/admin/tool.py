"""The click commands `kerolox admin` and `mqadmin`, made from the command table (MQAdminStartup)."""

import asyncio
import difflib
import sys
from typing import Any

import click

from kerolox.cli.admin import connection_options
from kerolox.cli.admin.command import Call, Command, Flag, pause
from kerolox.cli.admin.command_table import ALL_COMMANDS, BY_NAME
from kerolox.cli.admin.errors import InvalidUsage, describe_error, silence_logging
from kerolox.cli.admin.java_help import all_flags, command_help, commands_help
from kerolox.cli.admin.java_times import Seconds
from kerolox.cli.admin.printer import Printer, output_format
from kerolox.cli.errors import OneLineErrors
from kerolox.errors import KeroloxError, reason

# Flags that Java's mqadmin does not have.
_EXTRA_FLAGS = (
    click.Option(["--json", "is_json"], is_flag=True, help="Print JSON, one object per line."),
    *(click.Option([name], **settings) for name, settings in connection_options.FLAGS),
)
_WATCH = click.Option(["--watch"], type=Seconds(min=0.1), metavar="SECONDS", help="Refresh periodically.")
_YES = click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation.")


class AdminCommand(click.Command):
    """A click command for a declared command.

    With `is_java` it is part of `mqadmin`: for scripts written for Java's, it never asks for confirmation, and its help
    and usage errors are Java's.
    """

    def __init__(self, declared: Command, *, is_java: bool) -> None:
        self.declared = declared
        self._is_java = is_java
        self._flags = all_flags(declared)
        own = [_option(flag) for flag in self._flags if flag.name != "help"]
        extra = [*_EXTRA_FLAGS, *([_WATCH] if declared.is_watchable else []), *([_YES] if declared.warning else [])]
        super().__init__(
            declared.name,
            params=[*own, *extra],
            callback=self._run,
            help=f"{declared.description.rstrip('.')}.",
            short_help=declared.description,
            # Java ignores arguments that belong to no flag.
            context_settings={"help_option_names": ["-h", "--help"], "allow_extra_args": is_java},
        )

    def get_help(self, ctx: click.Context) -> str:
        return command_help(self.declared).rstrip("\n") if self._is_java else super().get_help(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, [self._expand(word) for word in args])
            if not ctx.resilient_parsing:
                self._check(ctx.params)
            return rest
        except click.UsageError as error:
            raise self._usage_error(error.format_message(), ctx) from None
        except InvalidUsage as error:
            raise self._usage_error(str(error), ctx) from None

    def _expand(self, word: str) -> str:
        """Return the full name of a long flag: like Java, we accept unique prefixes and a single dash."""
        dashes = len(word) - len(word.lstrip("-"))
        name, equals, value = word.lstrip("-").partition("=")
        if dashes not in (1, 2) or (dashes == 1 and len(name) < 2):
            return word
        known = [option[2:] for param in self.params for option in param.opts if option.startswith("--")]
        matching = [it for it in known if it == name] or [it for it in known if it.startswith(name)]
        return f"--{matching[0]}{equals}{value}" if len(matching) == 1 else word

    def _check(self, params: dict[str, Any]) -> None:
        missing = [flag for flag in self._flags if flag.is_required and params.get(flag.parameter) is None]
        if missing:
            raise InvalidUsage(f"missing: {', '.join(f'-{flag.short} (--{flag.name})' for flag in missing)}")
        choices = self.declared.choices
        chosen = [flag for flag in choices if params.get(flag.parameter) is not None]
        if choices and len(chosen) != 1:
            raise InvalidUsage(f"give one of {', '.join(f'-{flag.short} (--{flag.name})' for flag in choices)}")

    def _usage_error(self, message: str, context: click.Context | None = None) -> click.ClickException:
        return JavaUsageError(self.declared, message) if self._is_java else click.UsageError(message, context)

    def _run(self, **params: Any) -> None:
        values = {flag.name: params[flag.parameter] for flag in self.declared.flags if flag.parameter in params}
        try:
            flags = {
                name: params[name]
                for name in (flag.strip("-").replace("-", "_") for flag, _ in connection_options.FLAGS)
            }
            options = connection_options.client_options(params["namesrvAddr"], **flags)
            call = Call(connection_options.admin_client(options), values, is_java=self._is_java)
            self.declared.check(call)
            if not self._is_java:
                self._confirm(call, is_confirmed=params.get("yes", False))
            silence_logging()
            asyncio.run(self._show(call, Printer(output_format(is_json=params["is_json"])), params.get("watch")))
        except InvalidUsage as error:
            raise self._usage_error(str(error)) from None
        except KeroloxError as error:
            raise click.ClickException(describe_error(error)) from None
        except BrokenPipeError:
            # The reader closed the pipe; click exits quietly.
            raise
        except OSError as error:
            raise click.ClickException(reason(error)) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None

    def _confirm(self, call: Call, *, is_confirmed: bool) -> None:
        warning = self.declared.warning
        if warning is None or is_confirmed or not self.declared.needs_confirmation(call):
            return
        action = warning.format_map({name: value for name, value in call.values.items() if value})
        if not _can_answer():
            raise click.ClickException(f"this would {action}; add --yes to confirm")
        click.confirm(f"This will {action}. Continue?", abort=True, err=True)

    async def _show(self, call: Call, printer: Printer, watch_seconds: float | None) -> None:
        async with call.admin:
            while watch_seconds is not None:
                # Collect all output before clearing the screen, so that it does not flicker.
                parts = [part async for part in self.declared.run(call)]
                printer.clear()
                for part in parts:
                    printer.show(part)
                printer.end()
                await pause(watch_seconds)
            async for part in self.declared.run(call):
                printer.show(part)
            printer.end()


def _can_answer() -> bool:
    """Whether a user at a terminal can confirm."""
    return sys.stdin.isatty()


class JavaUsageError(click.ClickException):
    """A usage error, followed by Java's help of the command."""

    def __init__(self, declared: Command, message: str) -> None:
        super().__init__(message)
        self._declared = declared

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        click.echo(command_help(self._declared), nl=False)


def _option(flag: Flag) -> click.Option:
    names = [f"-{flag.short}", f"--{flag.name}", flag.parameter]
    text = flag.help if not flag.is_required else f"{flag.help}  [required]"
    if flag.is_switch:
        return click.Option(names, is_flag=True, help=text)
    return click.Option(names, help=text, metavar="TEXT")


class AdminGroup(OneLineErrors, click.Group):
    """All commands; their names are not case-sensitive, as in Java."""

    def __init__(self, name: str, text: str, *, is_java: bool) -> None:
        # The list of commands has room for the part before the colon.
        short, _, _ = text.partition(":")
        super().__init__(
            name,
            help=text,
            short_help=f"{short.rstrip('.')}.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._is_java = is_java
        self.add_command(click.Command("help", callback=self._help, params=[click.Argument(["name"], required=False)]))
        self.invoke_without_command = is_java
        self.no_args_is_help = not is_java
        self.callback = self._list_if_no_command

    def _list_if_no_command(self) -> None:
        if click.get_current_context().invoked_subcommand is None:
            click.echo(commands_help(ALL_COMMANDS), nl=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name for command in ALL_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        declared = BY_NAME.get(cmd_name.lower())
        if declared is None:
            return super().get_command(ctx, cmd_name)
        return AdminCommand(declared, is_java=self._is_java)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise self._no_such_command(args[0], ctx)
        return super().resolve_command(ctx, args)

    def _no_such_command(self, name: str, context: click.Context) -> click.ClickException:
        if self._is_java:
            return JavaNoSuchCommand(name)
        similar = difflib.get_close_matches(name.lower(), BY_NAME)
        hint = f" Did you mean {' or '.join(BY_NAME[it].name for it in similar)}?" if similar else ""
        return click.UsageError(f"No such command {name!r}.{hint}", context)

    def _help(self, name: str | None) -> None:
        """Print the commands, or the flags of one."""
        context = click.get_current_context().parent
        assert context is not None
        if name is not None and name.lower() not in BY_NAME:
            raise self._no_such_command(name, context)
        if not self._is_java:
            click.echo(self._help_of(name, context))
        elif name is None:
            click.echo(commands_help(ALL_COMMANDS), nl=False)
        else:
            click.echo(command_help(BY_NAME[name.lower()]), nl=False)

    def _help_of(self, name: str | None, context: click.Context) -> str:
        if name is None:
            return self.get_help(context)
        command = AdminCommand(BY_NAME[name.lower()], is_java=False)
        return command.get_help(click.Context(command, context, command.name))


class JavaNoSuchCommand(click.ClickException):
    """Java's message, on standard output like Java's."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The sub command {name} not exist.")

    def show(self, file: Any = None) -> None:
        click.echo(self.message)


admin = AdminGroup("admin", "Inspect and change a cluster: all commands of RocketMQ's mqadmin.", is_java=False)
mqadmin = AdminGroup("mqadmin", "All commands of RocketMQ's mqadmin.", is_java=True)
