"""Every picture of the documentation is made by docs/pictures.py."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_images_are_exactly_those_made_and_shown() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/([\w-]+)\.png\)", page.read_text())}
    made = set(re.findall(r'picture\(browser, "([\w-]+)"', (DOCS / "pictures.py").read_text()))

    assert {file.stem for file in (DOCS / "images").iterdir()} == made == shown
