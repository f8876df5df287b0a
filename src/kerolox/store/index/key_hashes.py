"""Index keys of records, one by one and as columns, in index order: unique key, keys, tag."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, Self

from kerolox.message import sysflag
from kerolox.message.records.columns import Columns
from kerolox.message.tags import key_hash
from kerolox.store.log.commit_log import KeyColumns

_TAG_MARK = b"T#"
# Longer tags are not cached, so that hostile input cannot make the cache large.
_CACHED_SIZE_MAX = 64
# Unique key, keys and tag of a record that has none of them.
NO_KEYS: Final = (b"", b"", b"")


def tag_key(tag: bytes) -> bytes:
    """Return the key under which RocketMQ 5.5 indexes messages with a tag: `topic#T#tag`."""
    return _TAG_MARK + tag


def index_keys(unique_key: bytes, keys: bytes, tag: bytes) -> list[bytes]:
    """Return the index keys of a record; `keys` are separated by spaces."""
    found = [unique_key] if unique_key else []
    if keys:
        found += split_keys(keys)
    if tag:
        # After the keys, as in 5.5; 4.x never queries it.
        found.append(_TAG_MARK + tag)
    return found


def split_keys(keys: bytes) -> list[bytes]:
    found = keys.split(b" ")
    return [key for key in found if key] if b"" in found else found


@dataclass(slots=True)
class RecordKeys:
    """Unique key, keys and tag of consecutive records as columns: each list has one element per record."""

    topics: list[str] = field(default_factory=list)
    unique_keys: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    physical_offsets: list[int] = field(default_factory=list)
    store_timestamps: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.topics)

    @classmethod
    def of(cls, run: Columns) -> Self:
        """Return the keys of the records that the index has: all but ROLLBACK records."""
        columns: list[Sequence[Any]] = [getattr(run, name) for name in cls.__slots__]
        flags = run.sys_flags
        if sysflag.ROLLBACK in {flag & sysflag.TRANSACTION_MASK for flag in set(flags)}:
            is_wanted = [flag & sysflag.TRANSACTION_MASK != sysflag.ROLLBACK for flag in flags]
            columns = [list(compress(column, is_wanted)) for column in columns]
        return cls(*map(list, columns))

    def add(self, topic: str, keys: tuple[bytes, bytes, bytes], physical_offset: int, store_timestamp: int) -> None:
        self.topics.append(topic)
        self.unique_keys.append(keys[0])
        self.keys.append(keys[1])
        self.tags.append(keys[2])
        self.physical_offsets.append(physical_offset)
        self.store_timestamps.append(store_timestamp)

    def add_all(
        self, topics: Sequence[str], columns: KeyColumns, physical_offsets: Sequence[int], store_timestamp: int
    ) -> None:
        self.topics += topics
        self.unique_keys += columns.unique_keys
        self.keys += columns.keys
        self.tags += columns.tags
        self.physical_offsets += physical_offsets
        self.store_timestamps += [store_timestamp] * len(topics)

    def part(self, first: int, end: int) -> "RecordKeys":
        span = slice(first, end)
        return RecordKeys(*(getattr(self, name)[span] for name in self.__slots__))

    def chosen(self, are_chosen: Sequence[object]) -> "RecordKeys":
        """Return the records for which `are_chosen` has a true element."""
        return RecordKeys(*(list(compress(getattr(self, name), are_chosen)) for name in self.__slots__))

    def extend(self, others: Self) -> None:
        self.topics += others.topics
        self.unique_keys += others.unique_keys
        self.keys += others.keys
        self.tags += others.tags
        self.physical_offsets += others.physical_offsets
        self.store_timestamps += others.store_timestamps


def index_hash(topic: str, key: bytes) -> int:
    """Return the hash of an index key."""
    return tag_hash(topic, key[len(_TAG_MARK) :]) if key.startswith(_TAG_MARK) else key_hash(topic, key)


def tag_hash(topic: str, tag: bytes) -> int:
    """Return the hash of a tag's index key."""
    return _cached_tag_hash(topic, tag) if len(tag) <= _CACHED_SIZE_MAX else key_hash(topic, tag_key(tag))


@functools.lru_cache(maxsize=8192)
def _cached_tag_hash(topic: str, tag: bytes) -> int:
    return key_hash(topic, tag_key(tag))
