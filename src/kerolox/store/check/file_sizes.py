"""Detects the settings of a store from the sizes of its files."""

import struct
from collections import Counter
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.check.read_only_disk import ReadOnlyDisk
from kerolox.store.config import StoreConfig
from kerolox.store.index.layout import ENTRY, HEADER, SLOT, IndexHeader, IndexShape
from kerolox.store.queue.consume_queue import ENTRY_SIZE

_LONG = struct.Struct(">q")
# RocketMQ's default ratio.
_ENTRIES_PER_SLOT = 4
_CHUNK_SIZE = 1024 * 1024
_FILES_LOOKED_AT_MAX = 20


def detect_settings(root: Path, disk: Disk | None = None) -> StoreConfig:
    """Return settings for reading the store at `root`; defaults where no file tells otherwise."""
    read_only = ReadOnlyDisk(disk)
    config = StoreConfig(store_path_root_dir=root)
    log_size = _most_common_size(read_only, _files(read_only, config.commit_log_directory, depth=0))
    config.mapped_file_size_commit_log = log_size or config.mapped_file_size_commit_log
    queue_size = _most_common_size(read_only, _files(read_only, root / "consumequeue", depth=2))
    if queue_size and queue_size % ENTRY_SIZE == 0:
        config.mapped_file_size_consume_queue = queue_size
    units_size = _most_common_size(read_only, _files(read_only, root / "consumequeue_ext", depth=2))
    config.mapped_file_size_consume_queue_ext = units_size or config.mapped_file_size_consume_queue_ext
    timer_size = _most_common_size(read_only, _files(read_only, root / "timerlog", depth=0))
    config.mapped_file_size_timer_log = timer_size or config.mapped_file_size_timer_log
    for path in _files(read_only, root / "index", depth=0)[:_FILES_LOOKED_AT_MAX]:
        shape = _shape(read_only, path)
        if shape is not None:
            config.max_hash_slot_num, config.max_index_num = shape.slots, shape.entries
            break
    return config


def _files(disk: Disk, directory: Path, depth: int) -> list[Path]:
    """Return some files with numeric names, `depth` directories down."""
    names = disk.names(directory)
    if depth == 0:
        return [directory / name for name in names if name.isdigit()]
    found: list[Path] = []
    for name in names:
        found += _files(disk, directory / name, depth - 1)
        if len(found) >= _FILES_LOOKED_AT_MAX:
            break
    return found


def _most_common_size(disk: Disk, paths: list[Path]) -> int:
    sizes = Counter(size for path in paths[:_FILES_LOOKED_AT_MAX] if (size := _size(disk, path)))
    return sizes.most_common(1)[0][0] if sizes else 0


def _size(disk: Disk, path: Path) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _shape(disk: Disk, path: Path) -> IndexShape | None:
    """Return the slots and entries of an index file; None if it has no entries to tell from."""
    file = disk.open(path)
    try:
        size, data = file.size(), file.read(0, HEADER.size)
        if len(data) < HEADER.size or IndexHeader.decode(data).is_empty:
            return None
        header = IndexHeader.decode(data)
        usual = IndexShape()
        slots = (size - HEADER.size) // (SLOT.size + _ENTRIES_PER_SLOT * ENTRY.size)
        for shape in (usual, IndexShape(slots, slots * _ENTRIES_PER_SLOT)):
            if _fits(file, size, shape, header):
                return shape
        return _search_shape(file, size, header)
    finally:
        file.close()


def _search_shape(file: File, size: int, header: IndexHeader) -> IndexShape | None:
    """Search for the last entry, whose offset is in the header; its position depends on the number of slots."""
    wanted = _LONG.pack(header.end_physical_offset)
    last = header.next_entry - 1
    for start in range(HEADER.size, size, _CHUNK_SIZE):
        chunk = file.read(start, _CHUNK_SIZE + len(wanted) - 1)
        at = chunk.find(wanted)
        while at >= 0:
            slots_size = start + at - SLOT.size - last * ENTRY.size - HEADER.size
            slots, rest = divmod(slots_size, SLOT.size)
            entries = (size - HEADER.size - slots_size) // ENTRY.size
            shape = IndexShape(slots, entries)
            if rest == 0 and slots > 0 and _fits(file, size, shape, header):
                return shape
            at = chunk.find(wanted, at + 1)
    return None


def _fits(file: File, size: int, shape: IndexShape, header: IndexHeader) -> bool:
    """Whether the last entry is where the shape puts it, and is the newest of its slot."""
    last = header.next_entry - 1
    if shape.slots <= 0 or shape.file_size != size or last >= shape.entries:
        return False
    data = file.read(shape.entries_position + last * ENTRY.size, ENTRY.size)
    if len(data) < ENTRY.size:
        return False
    hashed, offset, _, previous = ENTRY.unpack(data)
    if offset != header.end_physical_offset or hashed < 0 or not 0 <= previous < last:
        return False
    slot = file.read(HEADER.size + hashed % shape.slots * SLOT.size, SLOT.size)
    # In a file that is in use, the slots are newer than the header.
    return len(slot) == SLOT.size and SLOT.unpack(slot)[0] >= last
