"""Help texts as Java's mqadmin prints them: commons-cli at 110 columns (HelpFormatter)."""

from collections.abc import Iterable

from kerolox.cli.admin.command import Command, Flag

WIDTH = 110

_HELP = Flag("h", "help", "Print help", is_switch=True)
NAME_SERVERS = Flag("n", "namesrvAddr", "Name server address list, eg: '192.168.0.1:9876;192.168.0.2:9876'")


def all_flags(command: Command) -> list[Flag]:
    """Return the flags of a command and those that all commands have, in alphabetical order."""
    flags = {flag.short: flag for flag in (_HELP, NAME_SERVERS, *command.flags)}
    return sorted(flags.values(), key=lambda flag: flag.short.lower())


def command_help(command: Command) -> str:
    flags = all_flags(command)
    usage = f"usage: mqadmin {command.name} {_usage(flags)}"
    lefts = [f" -{flag.short},--{flag.long}{'' if flag.is_switch else ' <arg>'}" for flag in flags]
    width = max(map(len, lefts)) + 3
    lines = [_wrapped(usage, len("usage: "))]
    lines += [_wrapped(f"{left:<{width}}{flag.help}", width) for left, flag in zip(lefts, flags, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def commands_help(commands: Iterable[Command]) -> str:
    listed = "".join(f"   {it.name:<20} {it.description}\n" for it in commands)
    return (
        f"The most commonly used mqadmin commands are:\n{listed}\n"
        "See 'mqadmin help <command>' for more information on a specific command.\n"
    )


def _usage(flags: list[Flag]) -> str:
    parts = []
    choices = [flag for flag in flags if flag.is_choice]
    for flag in flags:
        if flag.is_choice:
            # commons-cli prints a group of alternatives in place of its first one, and leaves a blank for the others.
            parts.append(" | ".join(map(_shown, choices)) if flag is choices[0] else "")
        else:
            parts.append(_shown(flag) if flag.is_required else f"[{_shown(flag)}]")
    return " ".join(parts)


def _shown(flag: Flag) -> str:
    return f"-{flag.short}" if flag.is_switch else f"-{flag.short} <arg>"


def _wrapped(text: str, indent: int) -> str:
    lines = []
    while (at := _wrap_at(text)) is not None:
        lines.append(text[:at].rstrip())
        text = " " * indent + text[at:].strip()
    return "\n".join([*lines, text.rstrip()])


def _wrap_at(text: str) -> int | None:
    if len(text) <= WIDTH:
        return None
    at = text.rfind(" ", 0, WIDTH + 1)
    return at if text[:at].strip() else WIDTH
