"""The release recipe compiles change fragments into the changelog."""

import datetime as dt
from pathlib import Path

import pytest

import kerolox
from docs import release

DATE = dt.date(2026, 1, 31)
HEAD = "# Changes\n\n"
OLD = "## 0.0.1, 2025-01-01\n\n* Something old.\n"


def project(root: Path, changelog: str, **fragments: str) -> Path:
    (root / "changes").mkdir()
    (root / "changes" / "README.md").write_text("How to write fragments.\n")
    for name, text in fragments.items():
        (root / "changes" / (name.replace("__", ".") + ".md")).write_text(text)
    (root / "CHANGELOG.md").write_text(changelog)
    return root


def test_fragments_become_a_dated_section_above_the_older_ones(tmp_path: Path) -> None:
    root = project(tmp_path, HEAD + OLD, b__fix="Two lines\nof a fix.\n", a__feature="Something new.\n")

    release.compile_changes(root, kerolox.__version__, DATE)

    assert (root / "CHANGELOG.md").read_text() == (
        f"{HEAD}## {kerolox.__version__}, 2026-01-31\n\n### New\n\n* Something new.\n\n"
        f"### Fixed\n\n* Two lines\n  of a fix.\n\n{OLD}"
    )
    assert [path.name for path in (root / "changes").iterdir()] == ["README.md"]


def test_a_section_that_is_not_yet_released_gets_the_date_and_the_fragments(tmp_path: Path) -> None:
    section = f"## {kerolox.__version__}, not yet released\n\n* Already here.\n\n"
    root = project(tmp_path, HEAD + section + OLD, a__fix="A fix.\n")

    release.compile_changes(root, kerolox.__version__, DATE)

    assert (root / "CHANGELOG.md").read_text() == (
        f"{HEAD}## {kerolox.__version__}, 2026-01-31\n\n* Already here.\n\n### Fixed\n\n* A fix.\n\n{OLD}"
    )


@pytest.mark.parametrize(
    ("version", "fragment", "reason"),
    [
        ("9.9.9", "a__fix", "but kerolox.__version__ is"),
        (kerolox.__version__, "a__bug", r"must be named .*: a\.bug\.md"),
    ],
)
def test_a_wrong_version_or_fragment_name_changes_nothing(
    tmp_path: Path, version: str, fragment: str, reason: str
) -> None:
    root = project(tmp_path, HEAD + OLD, **{fragment: "Text.\n"})

    with pytest.raises(release.ReleaseError, match=reason):
        release.compile_changes(root, version, DATE)

    assert (root / "CHANGELOG.md").read_text() == HEAD + OLD
    assert len(list((root / "changes").iterdir())) == 2


def test_a_released_version_is_not_released_again(tmp_path: Path) -> None:
    root = project(tmp_path, f"{HEAD}## {kerolox.__version__}, 2025-01-01\n\n* Out.\n")

    with pytest.raises(release.ReleaseError, match="already has a release"):
        release.compile_changes(root, kerolox.__version__, DATE)


def test_every_fragment_of_this_tree_has_a_known_kind() -> None:
    names = [path.name for path in (release.ROOT / "changes").iterdir() if path.name != "README.md"]

    assert [name for name in names if not release._FRAGMENT.fullmatch(name)] == []
