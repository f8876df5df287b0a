"""`kerolox admin COMMAND` and `mqadmin COMMAND`: from the table of commands to what is typed and printed."""

import asyncio
import difflib
import sys
from dataclasses import dataclass
from typing import Any

import click

from kerolox.cli.admin import connecting
from kerolox.cli.admin.all import BY_NAME, LISTED
from kerolox.cli.admin.declaring import Call, Command, Flag, pause
from kerolox.cli.admin.errors import Misused, quiet, sentence
from kerolox.cli.admin.help import all_flags, command_help, commands_help
from kerolox.cli.admin.screen import Screen, form
from kerolox.cli.admin.times import Seconds
from kerolox.cli.refusing import Refusing
from kerolox.errors import KeroloxError, reason

_OURS = (
    click.Option(["--json", "is_json"], is_flag=True, help="Print JSON, an object to a line."),
    *(click.Option([name], **settings) for name, settings in connecting.FLAGS),
)
_WATCH = click.Option(["--watch"], type=Seconds(min=0.1), metavar="SECONDS", help="Show it again and again.")
_YES = click.Option(["--yes"], is_flag=True, help="Do not ask whether it is meant.")


@dataclass(frozen=True, slots=True)
class Manner:
    """Scripts written for Java's mqadmin are never asked back, and find its help where they expect it."""

    is_java: bool


class AdminCommand(click.Command):
    """A click command made of a declared one."""

    def __init__(self, declared: Command, manner: Manner) -> None:
        self.declared = declared
        self.manner = manner
        self._flags = all_flags(declared)
        own = [_option(flag) for flag in self._flags if flag.name != "help"]
        extra = [*_OURS, *([_WATCH] if declared.is_watched else []), *([_YES] if declared.warning else [])]
        super().__init__(
            declared.name,
            params=[*own, *extra],
            callback=self._run,
            help=f"{declared.description.rstrip('.')}.",
            short_help=declared.description,
            # Java does not look at words that belong to no flag.
            context_settings={"help_option_names": ["-h", "--help"], "allow_extra_args": manner.is_java},
        )

    def get_help(self, ctx: click.Context) -> str:
        return command_help(self.declared).rstrip("\n") if self.manner.is_java else super().get_help(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, [self._whole(word) for word in args])
            if not ctx.resilient_parsing:
                self._check(ctx.params)
            return rest
        except click.UsageError as error:
            raise self._misuse(error.format_message(), ctx) from None
        except Misused as error:
            raise self._misuse(str(error), ctx) from None

    def _whole(self, word: str) -> str:
        """Returns a long flag in full: as in Java one may cut it short, or give it with one dash."""
        dashes = len(word) - len(word.lstrip("-"))
        name, equals, value = word.lstrip("-").partition("=")
        if dashes not in (1, 2) or (dashes == 1 and len(name) < 2):
            return word
        known = [option[2:] for param in self.params for option in param.opts if option.startswith("--")]
        meant = [it for it in known if it == name] or [it for it in known if it.startswith(name)]
        return f"--{meant[0]}{equals}{value}" if len(meant) == 1 else word

    def _check(self, params: dict[str, Any]) -> None:
        missing = [flag for flag in self._flags if flag.is_required and params.get(flag.parameter) is None]
        if missing:
            raise Misused(f"missing: {', '.join(f'-{flag.short} (--{flag.name})' for flag in missing)}")
        choices = self.declared.choices
        given = [flag for flag in choices if params.get(flag.parameter) is not None]
        if choices and len(given) != 1:
            raise Misused(f"give one of {', '.join(f'-{flag.short} (--{flag.name})' for flag in choices)}")

    def _misuse(self, message: str, context: click.Context | None = None) -> click.ClickException:
        return JavaUsage(self.declared, message) if self.manner.is_java else click.UsageError(message, context)

    def _run(self, **params: Any) -> None:
        values = {flag.name: params[flag.parameter] for flag in self.declared.flags if flag.parameter in params}
        try:
            flags = {name: params[name] for name in (flag.strip("-").replace("-", "_") for flag, _ in connecting.FLAGS)}
            given = connecting.options(params["namesrvAddr"], **flags)
            call = Call(connecting.client(given), values, is_java=self.manner.is_java)
            self.declared.check(call)
            if not self.manner.is_java:
                self._ask(call, is_sure=params.get("yes", False))
            quiet()
            asyncio.run(self._show(call, Screen(form(is_json=params["is_json"])), params.get("watch")))
        except Misused as error:
            raise self._misuse(str(error)) from None
        except KeroloxError as error:
            raise Failed(sentence(error)) from None
        except BrokenPipeError:
            # Whoever read has read enough.
            raise
        except OSError as error:
            raise Failed(reason(error)) from None
        except KeyboardInterrupt:
            raise SystemExit(130) from None

    def _ask(self, call: Call, *, is_sure: bool) -> None:
        warning = self.declared.warning
        if warning is None or is_sure or not self.declared.is_harmful(call):
            return
        told = warning.format_map({name: value for name, value in call.values.items() if value})
        if not _is_asked():
            raise Failed(f"this would {told}; add --yes if that is meant")
        click.confirm(f"This will {told}. Go on?", abort=True, err=True)

    async def _show(self, call: Call, screen: Screen, watch_seconds: float | None) -> None:
        async with call.admin:
            while watch_seconds is not None:
                # All of it at once, so that the screen does not flicker.
                parts = [part async for part in self.declared.run(call)]
                screen.clear()
                for part in parts:
                    screen.show(part)
                screen.end()
                await pause(watch_seconds)
            async for part in self.declared.run(call):
                screen.show(part)
            screen.end()


def _is_asked() -> bool:
    """Whether there is somebody who could answer."""
    return sys.stdin.isatty()


class Failed(click.ClickException):
    """One sentence on stderr, and 1."""


class JavaUsage(click.ClickException):
    """What Java prints of a command that it cannot read, after what is wrong with it."""

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


class AdminGroup(Refusing, click.Group):
    """All commands; Java does not look at the case of their names."""

    def __init__(self, name: str, manner: Manner, text: str) -> None:
        # A list of commands has room for the first half of it.
        short, _, _ = text.partition(":")
        super().__init__(
            name,
            help=text,
            short_help=f"{short.rstrip('.')}.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self.manner = manner
        self.add_command(click.Command("help", callback=self._help, params=[click.Argument(["name"], required=False)]))
        self.invoke_without_command = manner.is_java
        self.no_args_is_help = not manner.is_java
        self.callback = self._nothing

    def _nothing(self) -> None:
        if click.get_current_context().invoked_subcommand is None:
            click.echo(commands_help(LISTED), nl=False)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name for command in LISTED]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        declared = BY_NAME.get(cmd_name.lower())
        return super().get_command(ctx, cmd_name) if declared is None else AdminCommand(declared, self.manner)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise self._no_such(args[0], ctx)
        return super().resolve_command(ctx, args)

    def _no_such(self, name: str, context: click.Context) -> click.ClickException:
        if self.manner.is_java:
            return NoSuchCommand(name)
        alike = difflib.get_close_matches(name.lower(), BY_NAME)
        meant = f" Did you mean {' or '.join(BY_NAME[it].name for it in alike)}?" if alike else ""
        return click.UsageError(f"No such command {name!r}.{meant}", context)

    def _help(self, name: str | None) -> None:
        """Print the commands, or the flags of one."""
        context = click.get_current_context().parent
        assert context is not None
        if name is not None and name.lower() not in BY_NAME:
            raise self._no_such(name, context)
        if not self.manner.is_java:
            click.echo(self._help_of(name, context))
        elif name is None:
            click.echo(commands_help(LISTED), nl=False)
        else:
            click.echo(command_help(BY_NAME[name.lower()]), nl=False)

    def _help_of(self, name: str | None, context: click.Context) -> str:
        if name is None:
            return self.get_help(context)
        command = AdminCommand(BY_NAME[name.lower()], self.manner)
        return command.get_help(click.Context(command, context, command.name))


class NoSuchCommand(click.ClickException):
    def __init__(self, name: str) -> None:
        super().__init__(f"The sub command {name} not exist.")

    def show(self, file: Any = None) -> None:
        click.echo(self.message)


admin = AdminGroup("admin", Manner(is_java=False), "Look at a cluster and change it: every command of Java's mqadmin.")
mqadmin = AdminGroup("mqadmin", Manner(is_java=True), "Java's mqadmin, command for command.")
