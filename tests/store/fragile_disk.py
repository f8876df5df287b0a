"""A simulated disk for tests of single files: it starts with some files, logs operations and shows what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.store.disks import Directory, SimulatedDisk

ROOT = Path("/store")


class FragileDisk(SimulatedDisk):
    """A disk with the directory of a store. Stops after `operations`, halfway through the next if that is a write."""

    def __init__(self, files: Mapping[Path, bytes] | None = None, *, operations: int | None = None) -> None:
        super().__init__()
        self.log: list[str] = []
        self.make_directory(ROOT)
        for path, data in (files or {}).items():
            self.make_directory(path.parent)
            self.write(path, data)
            self.overwrite(path, 0, data)
        _make_durable(self.root)
        self.log.clear()
        self.operations = 0
        self.stop_after = operations

    @property
    def files(self) -> dict[Path, bytes]:
        """The files as a reader sees them, also after the process was killed."""
        return _files(self.root, Path("/"))

    def left_by_power_cut(self, seed: int = 0) -> list[dict[Path, bytes]]:
        """Return possible states of the files after a power cut."""
        return [_files(disk.root, Path("/")) for disk in self.after_power_cut(seed)]

    def _change(self, kind: str, path: Path, halfway: Callable[[], None] = lambda: None) -> None:
        super()._change(kind, path, halfway)
        self.log.append(f"{kind} {path.name}")


def _files(directory: Directory, path: Path) -> dict[Path, bytes]:
    files: dict[Path, bytes] = {}
    for name, node in directory.names.items():
        if isinstance(node, Directory):
            files |= _files(node, path / name)
        else:
            files[path / name] = bytes(node.content)
    return files


def _make_durable(directory: Directory) -> None:
    directory.sync()
    for node in directory.names.values():
        if isinstance(node, Directory):
            _make_durable(node)
