"""Every picture of the pages has a command that makes it."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_what_lies_in_images_is_what_is_made_and_what_is_shown() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w-]+)\.png\)", page.read_text())}
    made = set(re.findall(r'picture\(browser, "([\w-]+)"', (DOCS / "pictures.py").read_text()))

    assert {file.stem for file in (DOCS / "images").iterdir()} == made == shown
