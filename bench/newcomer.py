"""`python -m bench.newcomer`: runs and times the first commands of a new user, without Java."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
# The text between these marks in the README is written by this program.
_BEGIN, _END = "<!-- python -m bench.newcomer -->", "<!-- end -->"
_HIDDEN = re.compile(r"java|javac|jshell|jar|mvn|mvnw|gradle")
_CLOSING = re.compile(r"=+ .*?\b(\d+) passed(?:.*?(\d+) skipped)?.* in [\d.]+s")
_STEPS = (
    ("`make demo`, with installing", ("make", "demo")),
    ("`make demo`, again", ("make", "demo")),
    ("`make test`", ("make", "test")),
)
_SECONDS_MAX = 3600


@dataclass(frozen=True, slots=True)
class Step:
    label: str
    seconds: float
    said: str


@click.command()
@click.option("--readme", type=Path, help="Also write the table to this page, between its two marks.")
@click.option("--only", type=click.IntRange(1, len(_STEPS)), default=len(_STEPS), help="Run only the first N steps.")
def main(readme: Path | None, only: int) -> None:
    """Run the README's commands in a fresh clone, with a PATH that has no Java on it."""
    with tempfile.TemporaryDirectory(prefix="kerolox-newcomer-") as directory, without_java(Path(directory)) as path:
        clone = Path(directory) / "kerolox"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JAVA", "KEROLOX", "PYTHON", "VIRTUAL_ENV", "CI", "MAKE"))
        }
        environment |= {"PATH": path, "HOME": str(Path(directory) / "home")}
        (Path(directory) / "home").mkdir()
        steps = [run(label, command, clone, environment) for label, command in _STEPS[:only]]
    page = table(steps)
    click.echo(page)
    if readme is not None:
        readme.write_text(replaced(readme.read_text(), page))


def run(label: str, command: tuple[str, ...], clone: Path, environment: dict[str, str]) -> Step:
    """Run a command and return its last line; raise ClickException with the whole output if it fails."""
    click.echo(f"{' '.join(command)} ...", err=True)
    log = clone.parent / "log"
    began = time.perf_counter()
    with log.open("w") as out:
        ran = subprocess.run(
            command, cwd=clone, env=environment, stdout=out, stderr=out, check=False, timeout=_SECONDS_MAX
        )
    seconds = time.perf_counter() - began
    printed = log.read_text(errors="replace")
    if ran.returncode:
        raise click.ClickException(f"{' '.join(command)} ended with {ran.returncode}:\n{printed[-5000:]}")
    return Step(label, seconds, said_of(printed))


def said_of(printed: str) -> str:
    """Return the numbers of passed and skipped tests, or that all counts agree if no tests ran."""
    closings = _CLOSING.findall(printed)
    if closings:
        passed = sum(int(found) for found, _ in closings)
        skipped = sum(int(found or 0) for _, found in closings)
        return f"{passed:,} tests passed, {skipped:,} were skipped for want of Java"
    return "every count agrees" if "every count agrees" in printed.lower() else ""


def table(steps: list[Step]) -> str:
    rows = [f"| {step.label} | {_minutes(step.seconds)} | {step.said} |" for step in steps]
    return "\n".join(["| in a fresh clone, 2 cores, no Java | takes | and says |", "|---|---:|---|", *rows])


def replaced(page: str, part: str) -> str:
    before, _, rest = page.partition(_BEGIN)
    _, mark, after = rest.partition(_END)
    if not mark:
        raise click.ClickException(f"the page has no {_BEGIN} and {_END}")
    return f"{before}{_BEGIN}\n{part}\n{_END}{after}"


@contextlib.contextmanager
def without_java(directory: Path) -> Iterator[str]:
    """Yield a PATH with all programs of the real one except Java and its tools."""
    programs = directory / "bin"
    programs.mkdir()
    # The real interpreter: a shim on the PATH may depend on the user's home.
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    for folder in os.environ["PATH"].split(os.pathsep):
        if not Path(folder).is_dir() or Path(folder).is_relative_to(ROOT):
            continue
        for program in Path(folder).iterdir():
            link = programs / program.name
            if not _HIDDEN.fullmatch(program.name) and not link.exists() and os.access(program, os.X_OK):
                link.symlink_to(program)
    yield str(programs)


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    main()
