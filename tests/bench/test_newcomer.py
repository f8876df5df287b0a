import os
from pathlib import Path

import click
import pytest

from bench.newcomer import Step, replaced, said_of, table, without_java


def test_the_tests_of_all_runs_are_counted_together() -> None:
    printed = "===== 594 passed in 301.20s (0:05:01) =====\nx\n== 6503 passed, 11 skipped, 2 deselected in 480.11s ==\n"

    assert said_of(printed) == "7,097 tests passed, 11 were skipped for want of Java"


def test_the_table_stands_between_its_marks() -> None:
    page = "# A\n<!-- python -m bench.newcomer -->\nold\n<!-- end -->\nrest\n"
    part = table([Step("`make demo`", 61.4, "every count agrees")])

    made = replaced(page, part)

    assert "old" not in made
    assert "| `make demo` | 1 min 1 s | every count agrees |\n<!-- end -->\nrest\n" in made
    with pytest.raises(click.ClickException, match="no <!--"):
        replaced("# A\n", part)


def test_a_path_without_java_has_everything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "usr"
    programs.mkdir()
    for name in ("java", "mvn", "make", "javascript"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{tmp_path / 'nowhere'}")

    with without_java(tmp_path) as path:
        assert sorted(found.name for found in Path(path).iterdir()) == ["javascript", "make", "python3"]
