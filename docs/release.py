"""Builds a release: `make release` builds wheel and sdist and checks each in a clean environment.

With `--version` it first compiles the fragments in `changes/` into `CHANGELOG.md`.
"""

import argparse
import datetime as dt
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import click

import kerolox

ROOT = Path(__file__).parents[1]
_SECTIONS = {"feature": "New", "fix": "Fixed"}
_FRAGMENT = re.compile(r"[a-z0-9-]+\.(feature|fix)\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
# Non-Python files of the wheel, which setuptools omits silently if misconfigured.
_DATA = ("kerolox/py.typed", "kerolox/dashboard/templates/", "kerolox/dashboard/static/")
# Run in the clean environment: a message through an embedded cluster.
_SMOKE = """
import asyncio, sys, tempfile
from pathlib import Path
import kerolox
from kerolox.client import ConsumeFrom, Message, Producer, PullConsumer
from kerolox.testing import Cluster

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with Cluster(Path(folder)) as cluster:
            address = cluster.namesrv_addr
            async with Producer("release", namesrv_addr=address) as producer:
                await producer.send(Message("orders", b"hello"))
            first = ConsumeFrom.FIRST_OFFSET
            consumer = PullConsumer("release", topics="orders", consume_from=first, namesrv_addr=address)
            async with consumer, asyncio.timeout(30):
                async for message in consumer:
                    assert message.body == b"hello"
                    break

asyncio.run(main())
print(kerolox.__version__)
"""


class ReleaseError(Exception):
    """The release cannot be built; the message is the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.release", description=__doc__)
    parser.add_argument(
        "--version", help="compile changes/ into CHANGELOG.md under this version, which must be kerolox's"
    )
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to write wheel and sdist")
    options = parser.parse_args(arguments)
    try:
        if options.version:
            compile_changes(ROOT, options.version, dt.datetime.now(tz=dt.UTC).date())
            click.echo(f"CHANGELOG.md has the changes of {options.version}; review and commit it")
        for path in build(options.dist):
            click.echo(f"checking {path.name} in a clean environment")
            check(path)
            click.echo(f"{path} is good")
    except ReleaseError as error:
        click.echo(f"no release: {error}", err=True)
        return 1
    return 0


def compile_changes(root: Path, version: str, date: dt.date) -> None:
    """Move the fragments of `changes/` into a section of `CHANGELOG.md`, and deletes them."""
    if not _VERSION.fullmatch(version) or version != kerolox.__version__:
        raise ReleaseError(f"version {version!r}, but kerolox.__version__ is {kerolox.__version__!r}: set both alike")
    fragments = sorted(path for path in (root / "changes").iterdir() if path.name != "README.md")
    unknown = [path.name for path in fragments if not _FRAGMENT.fullmatch(path.name)]
    if unknown:
        raise ReleaseError(f"fragments must be named <topic>.feature.md or <topic>.fix.md: {', '.join(unknown)}")
    changelog = root / "CHANGELOG.md"
    head, newest, rest = _split(changelog.read_text())
    heading = f"## {version}, {date:%Y-%m-%d}"
    if newest.startswith(f"## {version},") and "not yet released" in newest.splitlines()[0]:
        section = heading + newest[newest.index("\n") :].rstrip("\n")
    elif newest.startswith(f"## {version},"):
        raise ReleaseError(f"CHANGELOG.md already has a release {version}")
    else:
        section, rest = heading, newest + rest
    for kind, title in _SECTIONS.items():
        entries = [_entry(path.read_text()) for path in fragments if path.name.endswith(f".{kind}.md")]
        if entries:
            section += f"\n\n### {title}\n\n" + "\n".join(entries)
    changelog.write_text(f"{head}{section}\n\n{rest}".rstrip("\n") + "\n")
    for path in fragments:
        path.unlink()


def _split(text: str) -> tuple[str, str, str]:
    """Return what precedes the newest section, that section, and the older ones."""
    starts = [match.start() for match in re.finditer(r"^## ", text, re.MULTILINE)] + [len(text), len(text)]
    return text[: starts[0]], text[starts[0] : starts[1]], text[starts[1] :]


def _entry(fragment: str) -> str:
    return "* " + "\n  ".join(fragment.strip().splitlines())


def build(dist: Path) -> list[Path]:
    """Build wheel and sdist, and returns their paths."""
    before = set(dist.glob("*")) if dist.exists() else set()
    for path in before:
        if path.name.startswith("kerolox-"):
            path.unlink()
    _run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)], "building")
    return sorted(dist.glob(f"kerolox-{kerolox.__version__}*"))


def check(path: Path) -> None:
    """Install a wheel or sdist in a clean environment, runs its commands and sends a message through it."""
    if path.suffix == ".whl":
        names = zipfile.ZipFile(path).namelist()
        missing = [wanted for wanted in _DATA if not any(name.startswith(wanted) for name in names)]
        if missing:
            raise ReleaseError(f"{path.name} lacks {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder, "bin")
        constraints = [f"--constraint={file}" for file in sorted((ROOT / "constraints").glob("*.txt"))]
        _run([str(programs / "pip"), "install", "--quiet", *constraints, str(path)], f"installing {path.name}")
        for command in ("kerolox", "mqadmin", "mqbroker", "mqnamesrv"):
            _run([str(programs / command), "--help" if command == "kerolox" else "-h"], f"{command} of {path.name}")
        version = _run([str(programs / "python"), "-c", _SMOKE], f"sending a message with {path.name}", cwd=folder)
        if version.strip() != kerolox.__version__:
            raise ReleaseError(f"{path.name} installs version {version.strip()}")


def _run(command: list[str], what: str, cwd: str | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(  # noqa: S603  Commands of this file only.
        command, capture_output=True, text=True, check=False, cwd=cwd, env=environment
    )
    if done.returncode:
        raise ReleaseError(f"{what} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
