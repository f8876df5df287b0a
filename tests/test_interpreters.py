"""`make test-all` and `make test-others`, with scripts in place of the Pythons and of make."""

import os
import sys
from pathlib import Path

import pytest

from tests.interpreters import candidates, installed, run


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test output goes to artefacts/ in the working directory."""
    monkeypatch.chdir(tmp_path)


def script(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def python(path: Path, version: str, implementation: str = "cpython") -> Path:
    """Write a script that responds to the probe like a Python of this version."""
    return script(path, f'echo {implementation} {version.replace(".", " ")} "$0"')


def test_each_full_version_is_found_once(tmp_path: Path) -> None:
    paths = [
        python(tmp_path / "a b", "3.12.1"),
        python(tmp_path / "c", "3.12.1"),
        python(tmp_path / "d", "3.12.4"),
        python(tmp_path / "e", "4.0.0"),
    ]

    assert installed(paths) == {(3, 12, 1): paths[0], (3, 12, 4): paths[2], (4, 0, 0): paths[3]}


def test_old_foreign_and_broken_pythons_are_skipped(tmp_path: Path) -> None:
    paths = [
        tmp_path / "missing",
        tmp_path,
        script(tmp_path / "shim", "echo 'pyenv: python3.12: command not found' >&2", "exit 127"),
        python(tmp_path / "old", "3.10.13"),
        python(tmp_path / "pypy", "3.11.9", "pypy"),
    ]

    assert installed(paths) == {}


def test_this_python_is_found() -> None:
    assert installed([Path(sys.executable)]) == {sys.version_info[:3]: Path(sys.executable)}


@pytest.mark.parametrize("has_root", [False, True], ids=["in HOME", "in PYENV_ROOT"])
def test_pythons_are_looked_for_on_the_path_and_in_pyenv(tmp_path: Path, has_root: bool) -> None:
    root = tmp_path / "elsewhere" if has_root else tmp_path / ".pyenv"
    inactive = python(root / "versions" / "3.13.0" / "bin" / "python3", "3.13.0")
    environment = {"HOME": str(tmp_path), "PATH": f"/one{os.pathsep}/two"} | (
        {"PYENV_ROOT": str(root)} if has_root else {}
    )

    found = list(candidates(environment))

    assert found[0] == Path("/usr/bin/python3")
    assert {Path("/one/python3"), Path("/one/python3.11"), Path("/two/python3.14"), inactive} <= set(found)


class Make:
    """A PATH with a `make` that records its arguments, and fails in one of the environments."""

    def __init__(self, folder: Path, *, failing: str = "none") -> None:
        self._calls = folder / "calls"
        script(folder / "make", f'echo "$2 $3 $4" >> {self._calls}', f'test "$3" != VENV={failing}')
        self.environment = {"PATH": str(folder)}

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []


OWN = sys.version_info[:3]
A, B = (3, 99, 1), (3, 100, 2)


def test_all_runs_the_whole_suite_on_every_python(tmp_path: Path) -> None:
    make = Make(tmp_path)

    assert run({B: Path("/b"), A: Path("/a")}, is_others_only=False, environment=make.environment) == 0

    assert make.calls == [
        f"test-suite VENV=.venv PYTHON={sys.executable}",
        "test-suite VENV=.venv-3.99.1 PYTHON=/a",
        "test-suite VENV=.venv-3.100.2 PYTHON=/b",
    ]


def test_others_leaves_out_this_python_and_the_tests_with_spark_and_a_browser(tmp_path: Path) -> None:
    make = Make(tmp_path)

    assert run({A: Path("/a"), OWN: Path("/own")}, is_others_only=True, environment=make.environment) == 0

    assert make.calls == ["test-deep VENV=.venv-3.99.1 PYTHON=/a"]


def test_a_failure_on_one_python_does_not_stop_the_others_and_is_the_outcome(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make = Make(tmp_path, failing=".venv-3.99.1")

    assert run({A: Path("/a"), B: Path("/b")}, is_others_only=True, environment=make.environment) == 1

    assert len(make.calls) == 2
    *_, first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("Python 3.99.1: FAILED in ")
    assert second.startswith("Python 3.100.2: passed in ")


def test_others_fails_where_there_is_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make = Make(tmp_path)

    assert run({OWN: Path("/own")}, is_others_only=True, environment=make.environment) == 1

    assert make.calls == []
    assert "only Python {}.{}.{} is installed".format(*OWN) in capfd.readouterr().out
