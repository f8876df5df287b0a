from pathlib import Path

import pytest

from kerolox.runtime.user_dir import home


def test_the_environment_variable_sets_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path / "here"))

    assert home() == tmp_path / "here"


def test_the_default_folder_is_in_the_users_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KEROLOX_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert home() == tmp_path / ".kerolox"
