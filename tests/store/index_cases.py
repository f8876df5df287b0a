"""Keys that are indexed here and by Java, so that the files can be compared."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import Disk, RealDisk
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.layout import IndexShape
from kerolox.store.log.segments import OpenFiles

TOPIC = "orders"
BEGIN = 1_794_780_000_000


@dataclass(frozen=True, slots=True)
class Put:
    physical_offset: int
    store_timestamp: int
    keys: tuple[bytes, ...]


# Seven slots and seven entries to a file: chains of several keys, full files, a record in two of them, an empty
# key, text beyond ASCII, one whose hash is Integer.MIN_VALUE, a clock that goes back, and one that jumps too far.
GOLDEN_SHAPE = IndexShape(slots=7, entries=8)
GOLDEN_PUTS = (
    Put(0, BEGIN, (b"a", b"b")),
    Put(100, BEGIN + 999, (b"a",)),
    Put(300, BEGIN + 1000, (b"c a", b"")),
    Put(450, BEGIN + 61_500, ("größe€😀".encode(), b"a", b"a")),
    Put(451, BEGIN + 70_000, (b"a",)),
    Put(900, BEGIN + 65_000, (b"abydncvw", b"a")),
    Put(2**40, BEGIN + 2**31 * 1000 + 70_000, (b"far",)),
    Put(2**40 + 1, BEGIN + 2**33 * 1000, (b"farther",)),
    Put(2**40 + 2, BEGIN + 2**33 * 1000 - 5_000, (b"a", b"b", b"c")),
)


def random_puts(count: int, seed: int, *, start_offset: int = 0, begin_timestamp: int = BEGIN) -> list[Put]:
    """Return records with up to three keys; some keys are frequent."""
    chance = random.Random(seed)
    puts = []
    physical_offset, store_timestamp = start_offset, begin_timestamp
    for _ in range(count):
        keys = tuple(b"key-%d" % min(chance.randrange(300), chance.randrange(300)) for _ in range(chance.randrange(4)))
        puts.append(Put(physical_offset, store_timestamp, keys))
        physical_offset += chance.randrange(100, 400)
        store_timestamp += chance.choice((0, 1, 7, 400, 2500)) - (90_000 if chance.random() < 0.004 else 0)
    return puts


def new_index(disk: Disk, directory: Path, shape: IndexShape, *, pending_max: int = 16384) -> KeyIndex:
    return KeyIndex(OpenFiles(disk, 10), directory, ManualClock(BEGIN), shape=shape, pending_max=pending_max)


def put_all(index: KeyIndex, puts: list[Put] | tuple[Put, ...]) -> None:
    for put in puts:
        index.put(TOPIC, put.keys, put.physical_offset, put.store_timestamp)


def files_of(directory: Path, shape: IndexShape, puts: list[Put] | tuple[Put, ...]) -> list[bytes]:
    """Return the index files for these records, in order."""
    index = new_index(RealDisk(), directory, shape, pending_max=100)
    index.load()
    put_all(index, puts)
    paths = index.paths
    index.close()
    return [path.read_bytes() for path in paths]


def java_commands(puts: list[Put] | tuple[Put, ...]) -> list[str]:
    """Return the input lines with which Index.java indexes the same keys."""
    return [
        f"put {put.physical_offset} {put.store_timestamp} {TOPIC}#{key.decode()}" for put in puts for key in put.keys
    ]
