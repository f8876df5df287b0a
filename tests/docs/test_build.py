"""`make docs` renders every page, and fails where a link leads nowhere."""

import shutil
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="Sphinx is not installed")

from docs import build

pytestmark = pytest.mark.timeout(300)


def test_every_page_is_rendered_without_a_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = build.render(build.DOCS, tmp_path / "html")

    assert (code, capfd.readouterr().err) == (0, "")
    rendered = {page.relative_to(tmp_path / "html").with_suffix(".md") for page in (tmp_path / "html").rglob("*.html")}
    assert {page.relative_to(build.DOCS) for page in build.DOCS.rglob("*.md")} <= rendered
    assert "_images/dashboard.png" in (tmp_path / "html" / "how-to" / "use-the-dashboard.html").read_text()


@pytest.mark.parametrize(
    "link", ["[gone](gone.md)", "[gone](README.md#gone)", "[gone](#gone)", "![gone](gone.png)", "[gone](gone.toml)"]
)
def test_a_broken_link_fails_the_build(link: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    (source / "README.md").write_text(f"# Here\n\n{link}\n")

    code = build.render(source, tmp_path / "html")

    assert (code, "gone" in capfd.readouterr().err) == (1, True)
    shutil.rmtree(tmp_path / "html")
