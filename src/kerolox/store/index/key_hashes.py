"""Index keys of records, one by one and as columns, and their hashes in index order: unique key, keys, tag."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, repeat
from operator import sub
from typing import Any, Final, Self

from kerolox.message import sysflag
from kerolox.message.records.columns import Columns
from kerolox.message.tags import key_hash, key_hashes
from kerolox.store.log.commit_log import KeyColumns

_TAG_MARK = b"T#"
# Longer tags are not cached, so that hostile input cannot make the cache large.
_CACHED_SIZE_MAX = 64
# Fewer keys than this are hashed one by one.
_FEW = 16
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

    def extend(self, others: Self) -> None:
        self.topics += others.topics
        self.unique_keys += others.unique_keys
        self.keys += others.keys
        self.tags += others.tags
        self.physical_offsets += others.physical_offsets
        self.store_timestamps += others.store_timestamps


def index_hashes(topics: Sequence[str], keys: Sequence[bytes]) -> list[int]:
    """Return the hashes of index keys."""
    return list(map(_hash, topics, keys)) if len(keys) < _FEW else key_hashes(topics, keys)


def _hash(topic: str, key: bytes) -> int:
    return tag_hash(topic, key[len(_TAG_MARK) :]) if key.startswith(_TAG_MARK) else key_hash(topic, key)


def tag_hash(topic: str, tag: bytes) -> int:
    """Return the hash of a tag's index key."""
    return _cached_tag_hash(topic, tag) if len(tag) <= _CACHED_SIZE_MAX else key_hash(topic, tag_key(tag))


@functools.lru_cache(maxsize=8192)
def _cached_tag_hash(topic: str, tag: bytes) -> int:
    return key_hash(topic, tag_key(tag))


def hashes_by_position(run: RecordKeys) -> list[list[int]] | None:
    """Return the hashes of all first keys, all second keys and so on; None if records differ in number of keys."""
    topics, none_or_all = run.topics, (0, len(run))
    if any(column.count(b"") not in none_or_all for column in (run.unique_keys, run.keys, run.tags)):
        return None
    found: list[list[int]] = []
    if run.unique_keys[0]:
        found.append(key_hashes(topics, run.unique_keys))
    if run.keys[0]:
        texts = b" ".join(run.keys).split(b" ")
        counts = {keys.count(b" ") for keys in run.keys}
        step = counts.pop() + 1
        # With more keys per record than records the columns are too short to be faster.
        if counts or step > len(run) or b"" in texts:
            return None
        found += [key_hashes(topics, texts[at::step]) for at in range(step)]
    if run.tags[0]:
        found.append(_tag_hashes(topics, run.tags))
    return found


def _tag_hashes(topics: Sequence[str], tags: Sequence[bytes]) -> list[int]:
    if topics.count(topics[0]) < len(topics):
        is_cached = max(map(len, tags)) <= _CACHED_SIZE_MAX
        return list(map(_cached_tag_hash if is_cached else tag_hash, topics, tags))
    known = {tag: tag_hash(topics[0], tag) for tag in set(tags)}
    return list(map(known.__getitem__, tags))


def hashes_by_record(run: RecordKeys) -> tuple[list[int], list[int], list[int]]:
    """Return hash, physical offset and store timestamp of each key, record by record."""
    topics, keys = run.topics, run.keys
    texts = b" ".join(filter(None, keys)).split(b" ")
    if b"" in texts:
        texts = list(filter(None, texts))
        keys = [b" ".join(split_keys(text)) for text in keys]
    counts = [text.count(b" ") + 1 if text else 0 for text in keys]
    hashes = key_hashes(list(chain.from_iterable(map(repeat, topics, counts))), texts)
    unique_hashes = key_hashes(topics, run.unique_keys)
    found: list[int] = []
    ends: list[int] = []
    at = 0
    for unique_key, unique_hash, count, tag, hashed_tag in zip(
        run.unique_keys, unique_hashes, counts, run.tags, _tag_hashes(topics, run.tags), strict=True
    ):
        if unique_key:
            found.append(unique_hash)
        if count:
            found += hashes[at : at + count]
            at += count
        if tag:
            found.append(hashed_tag)
        ends.append(len(found))
    totals = list(map(sub, ends, [0, *ends[:-1]]))
    offsets = list(chain.from_iterable(map(repeat, run.physical_offsets, totals)))
    timestamps = run.store_timestamps
    if timestamps.count(timestamps[0]) == len(timestamps):
        # Messages appended together have one timestamp.
        return found, offsets, [timestamps[0]] * len(found)
    return found, offsets, list(chain.from_iterable(map(repeat, timestamps, totals)))
