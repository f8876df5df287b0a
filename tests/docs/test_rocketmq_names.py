"""The pages that lead newcomers to modules name modules and classes that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "kerolox"
PAGES = ("rocketmq-names.md", "architecture.md")
# `path/module.py` with the class that follows it, if one does.
NAMED = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`(?: ([A-Z][A-Za-z]+))?")


def named(page: str) -> list[tuple[str, str]]:
    return NAMED.findall((ROOT / "docs" / "internals" / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_named_module_and_class_exists(page: str) -> None:
    found = named(page)
    assert len(found) > 20

    missing = [path for path, _ in found if not (SOURCE / path).exists()]
    assert missing == []
    absent = [(path, name) for path, name in found if name and f"class {name}" not in (SOURCE / path).read_text()]
    assert absent == []
