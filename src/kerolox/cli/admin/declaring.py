"""How a command is declared, and what its function is called with."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kerolox.admin import AdminClient
from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.parts import Table, Text
from kerolox.cli.admin.times import parse_millis

Parts: TypeAlias = AsyncIterator[Table | Text]


async def pause(seconds: float) -> None:
    """Until the next look, for commands that go on."""
    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as Java spells it; some of its long names have blanks in them, or end with one."""

    short: str
    long: str
    help: str
    is_required: bool = False
    # Without a value.
    is_switch: bool = False
    # Of those that are of a choice, one and no more has to be given.
    is_choice: bool = False
    # Since which release of mqadmin, if it is not in 4.9.8.
    since: str | None = None

    @property
    def name(self) -> str:
        """By which a command's function asks for it, and users give it."""
        return self.long.strip().replace(" ", "-")

    @property
    def parameter(self) -> str:
        """The same as an identifier."""
        return self.name.replace("-", "_")


def needed(short: str, long: str, text: str) -> Flag:
    return Flag(short, long, text, is_required=True)


def later(short: str, long: str, text: str, since: str = "5.0.0") -> Flag:
    """A flag that 4.9.8 does not have."""
    return Flag(short, long, text, since=since)


def switch(short: str, long: str, text: str) -> Flag:
    return Flag(short, long, text, is_switch=True)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: the client, and what its flags were given."""

    admin: AdminClient
    values: Mapping[str, str | bool | None]
    # Scripts written for Java's mqadmin find what they expect, even where it says nothing.
    is_java: bool = True

    def __getitem__(self, name: str) -> str:
        """The value of a flag that has one."""
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
            raise Misused(f"--{name} {text!r} is no number") from None

    def truth(self, name: str, default: bool = False) -> bool:
        """As Java reads it: everything but `true` is false."""
        text = self.get(name)
        return default if text is None else text.lower() == "true"

    def millis(self, name: str) -> int | None:
        text = self.get(name)
        return None if text is None else parse_millis(text, f"--{name}")


Run: TypeAlias = Callable[[Call], Parts]


@dataclass(frozen=True, slots=True)
class Command:
    """One command. What it would destroy is said by `warning`, with the values of its flags filled in."""

    name: str
    description: str
    flags: tuple[Flag, ...]
    run: Run
    alias: str | None = None
    warning: str | None = None
    # Whether the warning is due, where that depends on the flags.
    is_harmful: Callable[[Call], bool] = lambda call: True
    # Whether it may be shown again and again.
    is_watched: bool = False
    # Since which release of mqadmin, if it is not in 4.9.8.
    since: str | None = None
    # Raises Misused over values that cannot be, before anybody is asked whether they are meant.
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
    is_harmful: Callable[[Call], bool] = lambda call: True,
    is_watched: bool = False,
    since: str | None = None,
    check: Callable[[Call], object] = lambda call: None,
) -> Callable[[Run], Run]:
    """Declares a command; its function is called when it is."""

    def declare(run: Run) -> Run:
        assert name not in COMMANDS, name
        COMMANDS[name] = Command(name, description, flags, run, alias, warning, is_harmful, is_watched, since, check)
        return run

    return declare
