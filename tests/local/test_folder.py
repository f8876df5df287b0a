"""The data folder of a cluster: its lock and its state file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.local.folder import BrokerState, Folder, UpState, default_folder

_HOLDING = """
import sys
from pathlib import Path
from kerolox.local.folder import Folder
with Folder(Path(sys.argv[1])).taken():
    print("taken", flush=True)
    sys.stdin.read()
"""


def state_of(folder: Folder) -> UpState:
    return UpState(
        pid=7,
        version="1",
        data=str(folder.path),
        started=1,
        ready_seconds=0.5,
        namesrv="127.0.0.1:9876",
        brokers=[BrokerState(name="broker-a", address="127.0.0.1:10911", pid=7)],
    )


def test_holder_returns_another_process_until_it_ends(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "up")
    assert folder.holder() is None
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDING, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert folder.holder() == process.pid
        with pytest.raises(ConfigurationError, match=rf"process {process.pid}\): stop it with `kerolox down --data "):
            folder.taken().__enter__()
        process.kill()
        process.communicate(timeout=60)

    assert folder.holder() is None
    with folder.taken():
        assert folder.path.is_dir()


def test_the_flag_is_quoted_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path))

    assert Folder(tmp_path / "up").flag == ""
    assert Folder(tmp_path / "my data").flag == f" --data '{tmp_path}/my data'"


def test_a_process_can_lock_the_folder_once(tmp_path: Path) -> None:
    with Folder(tmp_path).taken(), pytest.raises(ConfigurationError, match=str(os.getpid())):
        Folder(tmp_path).taken().__enter__()


def test_the_state_is_saved_read_and_deleted(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.state() is None

    folder.save_state(state_of(folder))

    assert folder.state() == state_of(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["up.json"]
    folder.delete_state()
    folder.delete_state()
    assert folder.state() is None


def test_a_malformed_state_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "up.json").write_text('{"pid": "many"}')

    assert Folder(tmp_path).state() is None


def test_an_unusable_folder_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigurationError, match="name another with --data"):
        Folder(tmp_path / "file" / "up").taken().__enter__()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Folder(tmp_path / "file").holder()


def test_the_default_folder_is_in_the_home_of_kerolox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path))

    assert default_folder() == tmp_path / "up"
