"""Every test that `make test` skips is run by `make compat`."""

from pathlib import Path

from tests.compat.everything import files_marked

ROOT = Path(__file__).parents[1]


def test_every_file_with_slow_tests_is_run() -> None:
    files = set(ROOT.rglob("test_*.py")) - {Path(__file__)}
    slow = {file for file in files if "@pytest.mark.slow" in file.read_text()}

    assert slow - set(files_marked()) == set()
    assert ROOT / "examples" / "test_demo.py" in slow


def test_a_file_that_only_mentions_slow_tests_is_not_run() -> None:
    assert Path(__file__) not in files_marked()
