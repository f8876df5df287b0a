"""The pip command for an extra, after an installation from a clone and from an index."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from kerolox.runtime.optional_deps import install_command


@pytest.fixture
def direct_url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file that pip writes if a package was not installed from an index."""
    file = tmp_path / "kerolox-0.dist-info" / "direct_url.json"
    file.parent.mkdir()
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.PathDistribution(file.parent))
    return file


def test_an_installation_from_a_clone_names_the_clone(direct_url: Path, tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    direct_url.write_text(json.dumps({"url": clone.as_uri(), "dir_info": {}}))

    assert install_command("spark") == f"pip install '{clone}[spark]'"


def test_an_installation_from_an_index_names_the_package(direct_url: Path) -> None:
    assert install_command("spark") == "pip install 'kerolox[spark]'"


@pytest.mark.parametrize("text", ['{"url": "file:///gone"}', '{"url": "https://127.0.0.1/kerolox.whl"}', "{}", "?"])
def test_a_missing_source_folder_falls_back_to_the_package_name(direct_url: Path, text: str) -> None:
    direct_url.write_text(text)

    assert install_command("otel") == "pip install 'kerolox[otel]'"


def test_an_uninstalled_package_falls_back_to_the_package_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)

    assert install_command("otel") == "pip install 'kerolox[otel]'"
