"""Links of the documentation have existing targets, and every page is linked."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def links(page: Path) -> list[tuple[Path, str]]:
    """Return the files that a page links to, and the headings in them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = []
    for target in _LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, heading = target.partition("#")
            found.append(((page.parent / path).resolve() if path else page.resolve(), heading))
    return found


def headings(page: Path) -> set[str]:
    """Return the names that headings can be linked by, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = [
        (str(target), heading)
        for target, heading in links(page)
        if not target.exists() or (heading and target.suffix == ".md" and heading not in headings(target))
    ]

    assert broken == []


def test_every_page_can_be_reached_from_the_first() -> None:
    reached: set[Path] = set()
    waiting = [(DOCS / "README.md").resolve()]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [target for target, _ in links(page) if target.suffix == ".md" and target.exists()]

    assert [
        str(page.relative_to(ROOT)) for page in PAGES if DOCS in page.parents and page.resolve() not in reached
    ] == []


def test_no_page_embeds_a_remote_picture() -> None:
    pictures = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text())
        if "://" in target
    ]

    assert pictures == []
