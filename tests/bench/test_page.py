"""The page of figures."""

from pathlib import Path

from bench.page import replace_part, replaced

PAGE = "# NameServer: ours and theirs\n\n## Routes\n\n| a |\n\n# Store: speed\n\nold\n"


def test_a_part_replaces_its_own_and_no_other() -> None:
    assert replaced(PAGE, "# Store: size\n\nnew\n") == PAGE.replace("# Store: speed\n\nold\n", "# Store: size\n\nnew\n")
    changed = replaced(PAGE, "# NameServer: new\n\nnew\n")
    assert changed == "# NameServer: new\n\nnew\n\n# Store: speed\n\nold\n"


def test_a_new_part_comes_last() -> None:
    assert replaced(PAGE, "# Broker: x\n") == PAGE + "\n# Broker: x\n"
    assert replaced("", "# Broker: x\n") == "# Broker: x\n"


def test_a_page_is_made_and_changed_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"

    replace_part(path, "# Store: a\n")
    replace_part(path, "# NameServer: b\n")
    replace_part(path, "# Store: c\n")

    assert path.read_text() == "# Store: c\n\n# NameServer: b\n"
