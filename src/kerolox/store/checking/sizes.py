"""Finds out with which settings a store was written: the sizes of its files tell."""

import struct
from collections import Counter
from pathlib import Path

from kerolox.runtime.files import Disk, File
from kerolox.store.checking.read_only import ReadOnlyDisk
from kerolox.store.configuration import StoreConfig
from kerolox.store.keys.index_layout import ENTRY, HEADER, SLOT, IndexHeader, IndexShape
from kerolox.store.queue.consume_queue import ENTRY_SIZE

_LONG = struct.Struct(">q")
# Apache's ratio, which few will have changed.
_ENTRIES_PER_SLOT = 4
_CHUNK_SIZE = 1024 * 1024
_FILES_LOOKED_AT_MAX = 20


def found_settings(root: Path, disk: Disk | None = None) -> StoreConfig:
    """Returns settings under which the store at `root` can be read; the defaults where no file tells otherwise."""
    looking = ReadOnlyDisk(disk)
    config = StoreConfig(store_path_root_dir=root)
    log_size = _usual_size(looking, _files(looking, config.commit_log_directory, depth=0))
    config.mapped_file_size_commit_log = log_size or config.mapped_file_size_commit_log
    queue_size = _usual_size(looking, _files(looking, root / "consumequeue", depth=2))
    if queue_size and queue_size % ENTRY_SIZE == 0:
        config.mapped_file_size_consume_queue = queue_size
    units_size = _usual_size(looking, _files(looking, root / "consumequeue_ext", depth=2))
    config.mapped_file_size_consume_queue_ext = units_size or config.mapped_file_size_consume_queue_ext
    timer_size = _usual_size(looking, _files(looking, root / "timerlog", depth=0))
    config.mapped_file_size_timer_log = timer_size or config.mapped_file_size_timer_log
    for path in _files(looking, root / "index", depth=0)[:_FILES_LOOKED_AT_MAX]:
        shape = _shape(looking, path)
        if shape is not None:
            config.max_hash_slot_num, config.max_index_num = shape.slots, shape.entries
            break
    return config


def _files(disk: Disk, directory: Path, depth: int) -> list[Path]:
    """Returns some of the files that are named by a number, so many directories down."""
    names = disk.names(directory)
    if depth == 0:
        return [directory / name for name in names if name.isdigit()]
    found: list[Path] = []
    for name in names:
        found += _files(disk, directory / name, depth - 1)
        if len(found) >= _FILES_LOOKED_AT_MAX:
            break
    return found


def _usual_size(disk: Disk, paths: list[Path]) -> int:
    sizes = Counter(size for path in paths[:_FILES_LOOKED_AT_MAX] if (size := _size(disk, path)))
    return sizes.most_common(1)[0][0] if sizes else 0


def _size(disk: Disk, path: Path) -> int:
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _shape(disk: Disk, path: Path) -> IndexShape | None:
    """Returns how many slots and entries an index file has, if it has entries that tell."""
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
        return _searched(file, size, header)
    finally:
        file.close()


def _searched(file: File, size: int, header: IndexHeader) -> IndexShape | None:
    """Looks for the last entry, of which the header tells; where it lies depends on how many slots are before it."""
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
    """Whether the last entry lies where it must, and is the newest of its slot."""
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
    # In a file that is open, the slots are newer than the header.
    return len(slot) == SLOT.size and SLOT.unpack(slot)[0] >= last
