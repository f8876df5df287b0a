"""Declares commands: flags, the registry, and the call that a command's function gets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kerolox.admin import AdminClient
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.java_times import parse_millis
from kerolox.cli.admin.output import Table, Text

Output: TypeAlias = AsyncIterator[Table | Text]


async def pause(seconds: float) -> None:
    """Wait for the next round of a command that repeats; tests replace it."""
    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as Java spells it; some long names contain blanks or end with one."""

    short: str
    long: str
    help: str
    is_required: bool = False
    # Takes no value.
    is_switch: bool = False
    # Exactly one of the command's choice flags has to be given.
    is_choice: bool = False
    # The release of mqadmin that introduced it, if it is not in 4.9.8.
    since: str | None = None

    @property
    def name(self) -> str:
        """The long name as users type it, and as `Call` finds its value."""
        return self.long.strip().replace(" ", "-")

    @property
    def parameter(self) -> str:
        """The name as a Python identifier, for click."""
        return self.name.replace("-", "_")


def required(short: str, long: str, text: str) -> Flag:
    return Flag(short, long, text, is_required=True)


def newer(short: str, long: str, text: str, since: str = "5.0.0") -> Flag:
    """Return a flag that mqadmin 4.9.8 does not have."""
    return Flag(short, long, text, since=since)


def switch(short: str, long: str, text: str) -> Flag:
    return Flag(short, long, text, is_switch=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: the client, and the values of its flags."""

    admin: AdminClient
    values: Mapping[str, str | bool | None]
    # True for `mqadmin`: scripts written for Java's get its output, also where it is silent about an error.
    is_java: bool = True

    def __getitem__(self, name: str) -> str:
        """Return the value of a flag that is known to be given."""
        value = self.values[name]
        assert isinstance(value, str), name
        return value.strip()

    def get(self, name: str) -> str | None:
        value = self.values.get(name)
        return value.strip() if isinstance(value, str) else None

    def has(self, name: str) -> bool:
        """Whether a switch was set, or a value given."""
        return bool(self.values.get(name))

    def number(self, name: str, default: int = 0) -> int:
        text = self.get(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise InvalidUsage(f"--{name} {text!r} is not a number") from None

    def boolean(self, name: str, default: bool = False) -> bool:
        """Parse like Java's Boolean.parseBoolean: everything but `true` is false."""
        text = self.get(name)
        return default if text is None else text.lower() == "true"

    def millis(self, name: str) -> int | None:
        text = self.get(name)
        return None if text is None else parse_millis(text, f"--{name}")


Runner: TypeAlias = Callable[[Call], Output]


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `warning` says what it destroys; `{flag}` in it stands for the flag's value."""

    name: str
    description: str
    flags: tuple[Flag, ...]
    run: Runner
    alias: str | None = None
    warning: str | None = None
    # Whether to ask for confirmation with `warning`, where that depends on the flags.
    needs_confirmation: Callable[[Call], bool] = lambda call: True
    # Whether it has --watch.
    is_watchable: bool = False
    # The release of mqadmin that introduced it, if it is not in 4.9.8.
    since: str | None = None
    # Raises InvalidUsage over invalid values, before the user is asked for confirmation.
    check: Callable[[Call], object] = lambda call: None

    @property
    def choices(self) -> list[Flag]:
        return [flag for flag in self.flags if flag.is_choice]


COMMANDS: dict[str, Command] = {}


def command(
    name: str,
    description: str,
    *flags: Flag,
    alias: str | None = None,
    warning: str | None = None,
    needs_confirmation: Callable[[Call], bool] = lambda call: True,
    is_watchable: bool = False,
    since: str | None = None,
    check: Callable[[Call], object] = lambda call: None,
) -> Callable[[Runner], Runner]:
    """Register the decorated function as a command; see `Command` for the parameters."""

    def declare(run: Runner) -> Runner:
        assert name not in COMMANDS, name
        COMMANDS[name] = Command(
            name,
            description,
            flags,
            run,
            alias=alias,
            warning=warning,
            needs_confirmation=needs_confirmation,
            is_watchable=is_watchable,
            since=since,
            check=check,
        )
        return run

    return declare
