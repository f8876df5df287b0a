"""Runs the tests on every Python that is installed: `make test-all` and `make test-others`."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

Version = tuple[int, ...]

OLDEST: Version = (3, 11)
# Names on PATH are tried up to this minor release.
_MINOR_MAX = 20
_PROBE = "import sys; print(sys.implementation.name, *sys.version_info[:3], sys.executable)"
_PROBE_SECONDS_MAX = 20
# Without Spark and browser the tests mostly wait, so several run at once.
_DEEP_AT_ONCE = 2
_LINES_SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interpreters", description=__doc__)
    parser.add_argument(
        "--others",
        action="store_true",
        help="leave out this Python, and the tests that need Spark or a browser; fail if there is no other Python",
    )
    arguments = parser.parse_args()
    return run(installed(candidates(os.environ)), is_others_only=arguments.others)


def run(found: Mapping[Version, Path], *, is_others_only: bool, environment: Mapping[str, str] = os.environ) -> int:
    """Run the tests on each Python and print a summary; return 0 if all pass."""
    own = sys.version_info[:3]
    if is_others_only:
        pythons = {version: path for version, path in found.items() if version != own}
    else:
        pythons = {**found, own: Path(sys.executable)}
    if not pythons:
        print(f"only Python {_text(own)} is installed, and the tests must pass on others, too: install one of them")
        return 1
    target = "test-deep" if is_others_only else "test-suite"
    # A full suite keeps two cores busy.
    with ThreadPoolExecutor(_DEEP_AT_ONCE if is_others_only else 1) as pool:
        outcomes = list(
            pool.map(lambda version: _run_one(version, pythons[version], target, environment), sorted(pythons))
        )
    for version, has_passed, seconds in outcomes:
        print(f"Python {_text(version)}: {'passed' if has_passed else 'FAILED'} in {seconds:.0f} s")
    return 0 if all(has_passed for _, has_passed, _ in outcomes) else 1


def _run_one(
    version: Version, python: Path, target: str, environment: Mapping[str, str]
) -> tuple[Version, bool, float]:
    """Run the tests on one Python; prints its output at the end, in full if it failed."""
    venv = ".venv" if version == sys.version_info[:3] else f".venv-{_text(version)}"
    log = Path("artefacts", f"test-{_text(version)}.log")
    log.parent.mkdir(exist_ok=True)
    print(f"Python {_text(version)}: {python}, in {venv}, output in {log}", flush=True)
    begun = time.monotonic()
    command = ["make", "--no-print-directory", target, f"VENV={venv}", f"PYTHON={python}"]
    with log.open("w") as output:
        ran = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    lines = log.read_text(errors="replace").splitlines()
    shown = lines[-_LINES_SHOWN:] if ran.returncode == 0 else lines
    print("\n".join([f"Python {_text(version)}:", *shown]), flush=True)
    return version, ran.returncode == 0, time.monotonic() - begun


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield possible paths of Pythons: of the distribution, on PATH, and of pyenv, activated or not."""
    yield Path("/usr/bin/python3")
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST[1], _MINOR_MAX + 1))]
    for folder in environment.get("PATH", "").split(os.pathsep):
        yield from (Path(folder, name) for name in names if folder)
    pyenv = environment.get("PYENV_ROOT") or Path(environment.get("HOME", "/"), ".pyenv")
    yield from Path(pyenv, "versions").glob("*/bin/python3")


def installed(paths: Iterable[Path]) -> dict[Version, Path]:
    """Return one CPython per supported version. Skips what does not run, such as inactive pyenv shims."""
    found: dict[Version, Path] = {}
    for path in paths:
        try:
            probed = subprocess.run(
                [path, "-c", _PROBE], capture_output=True, text=True, timeout=_PROBE_SECONDS_MAX, check=True
            )
        except (OSError, subprocess.SubprocessError):
            continue
        implementation, *numbers, executable = probed.stdout.rstrip("\n").split(" ", 4)
        version = tuple(map(int, numbers))
        if implementation == "cpython" and version >= OLDEST:
            found.setdefault(version, Path(executable))
    return found


def _text(version: Version) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
