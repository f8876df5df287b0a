"""What is told to type works from a clone and from an index."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from kerolox.runtime.extras import installing


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns the file that pip writes where a package was not found by its name."""
    file = tmp_path / "kerolox-0.dist-info" / "direct_url.json"
    file.parent.mkdir()
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.PathDistribution(file.parent))
    return file


def test_from_a_clone_the_extra_comes_from_the_clone(noted: Path, tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    noted.write_text(json.dumps({"url": clone.as_uri(), "dir_info": {}}))

    assert installing("spark") == f"pip install '{clone}[spark]'"


def test_from_an_index_it_comes_from_the_index(noted: Path) -> None:
    assert installing("spark") == "pip install 'kerolox[spark]'"


@pytest.mark.parametrize("text", ['{"url": "file:///gone"}', '{"url": "https://127.0.0.1/kerolox.whl"}', "{}", "?"])
def test_from_what_is_gone_or_no_folder_it_comes_from_the_index(noted: Path, text: str) -> None:
    noted.write_text(text)

    assert installing("otel") == "pip install 'kerolox[otel]'"


def test_without_an_installation_it_comes_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)

    assert installing("otel") == "pip install 'kerolox[otel]'"
