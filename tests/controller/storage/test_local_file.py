"""The file of a single controller: durable, atomic, and never silently empty."""

from pathlib import Path

import pytest

from kerolox.controller.storage.local_file import FILE_NAME, LocalFile
from kerolox.controller.storage.storage import ABSENT, StorageUnavailable
from kerolox.errors import ConfigurationError
from kerolox.runtime.files import RealDisk


class RecordingDisk(RealDisk):
    """Records changes, and fails the one that a test names."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing = ""

    def _record(self, call: str, path: Path) -> None:
        self.calls.append(f"{call} {path.name}")
        if self.calls[-1] == self.failing:
            raise OSError(28, "No space left on device", str(path))

    def write(self, path: Path, data: bytes) -> None:
        self._record("write", path)
        super().write(path, data)

    def sync(self, path: Path) -> None:
        self._record("sync", path)
        super().sync(path)

    def rename(self, source: Path, target: Path) -> None:
        self._record("rename", target)
        super().rename(source, target)


async def test_a_change_is_on_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    disk = RecordingDisk()
    storage = LocalFile(disk, tmp_path)
    await storage.open()
    disk.calls.clear()

    await storage.replace("broker-a", b"{}", ABSENT)

    assert disk.calls == [
        "write groups.json.tmp",
        "sync groups.json.tmp",
        "rename groups.json",
        f"sync {tmp_path.name}",
    ]
    await storage.close()


@pytest.mark.parametrize("call", ["write groups.json.tmp", "sync groups.json.tmp", "rename groups.json"])
async def test_a_change_that_cannot_be_written_is_not_made(tmp_path: Path, call: str) -> None:
    disk = RecordingDisk()
    storage = LocalFile(disk, tmp_path)
    await storage.open()
    version = await storage.replace("broker-a", b"1", ABSENT)
    disk.failing = call

    with pytest.raises(StorageUnavailable, match="No space left on device"):
        await storage.replace("broker-a", b"2", version)

    assert await storage.read("broker-a") == (b"1", version)
    disk.failing = ""
    assert await storage.replace("broker-a", b"3", version) == version + 1
    await storage.close()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is damaged"),
        (b'{"format":1,"groups":{"a":', "is damaged"),
        (b'{"format":1,"groups":[]}', "is damaged"),
        (b'{"format":9,"groups":{}}', "has format 9"),
    ],
)
async def test_a_damaged_file_is_not_taken_for_an_empty_one(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    storage = LocalFile(RealDisk(), tmp_path)

    with pytest.raises(ConfigurationError, match=complaint):
        await storage.open()
    await storage.close()


async def test_a_second_controller_does_not_share_the_directory(tmp_path: Path) -> None:
    first, second = LocalFile(RealDisk(), tmp_path), LocalFile(RealDisk(), tmp_path)
    await first.open()

    with pytest.raises(ConfigurationError, match="is in use by another controller"):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def test_a_path_that_is_no_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="cannot be used"):
        await LocalFile(RealDisk(), tmp_path / "file").open()
