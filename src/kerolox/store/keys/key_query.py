"""Finds messages by key, unique key or tag."""

import asyncio
from collections.abc import Iterator

import msgspec

from kerolox.store.errors import StoreError
from kerolox.store.keys.key_index import KeyIndex
from kerolox.store.log.records import Records

FOREVER = 2**63 - 1
# A client does not take a larger frame than 16 MiB; so much of one is left to the rest of the answer.
_ANSWER_SIZE_MAX = 15 * 1024 * 1024


class Queried(msgspec.Struct, frozen=True, gc=False):
    """Records in the order of the log, and how far the index had come; 0 if it knew none of them."""

    records: list[bytes] = []
    index_timestamp: int = 0
    index_physical_offset: int = 0


def query(
    index: KeyIndex, records: Records, topic: str, key: bytes, count_max: int, begin_timestamp: int, end_timestamp: int
) -> Queried:
    """Returns the newest records whose key has the hash of this one; which have the key itself the caller must see.

    The original asks again, up to three times, when it has found none of the records; nothing can come of it.
    """
    offsets = find_offsets(index, topic, key, count_max, begin_timestamp, end_timestamp)
    return _queried(index, list(_read(records, offsets))) if offsets else Queried()


async def search(
    index: KeyIndex, records: Records, topic: str, key: bytes, count_max: int, begin_timestamp: int, end_timestamp: int
) -> Queried:
    """Returns the same, and lets others have their turn while it looks."""
    offsets = await search_offsets(index, topic, key, count_max, begin_timestamp, end_timestamp)
    if not offsets:
        return Queried()
    found: list[bytes] = []
    for record in _read(records, offsets):
        found.append(record)
        await asyncio.sleep(0)
    return _queried(index, found)


def _queried(index: KeyIndex, found: list[bytes]) -> Queried:
    found.reverse()
    return Queried(found, index.end_timestamp, index.end_physical_offset)


def _read(records: Records, offsets: list[int]) -> Iterator[bytes]:
    """Yields records from the last on, as many as fit into an answer."""
    is_first = True
    room = _ANSWER_SIZE_MAX
    for offset in sorted(offsets, reverse=True):
        size = records.size_at(offset)
        if size > room and not is_first:
            break
        record = records.at(offset, size)
        if record is not None:
            is_first = False
            room -= size
            yield record


def find_offsets(
    index: KeyIndex, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = FOREVER
) -> list[int]:
    """Returns where records lie whose key has the hash of this one, the newest first."""
    try:
        return index.query(topic, key, count_max, begin_timestamp, end_timestamp)
    except OSError as error:
        raise _unreadable(error) from error


async def search_offsets(
    index: KeyIndex, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = FOREVER
) -> list[int]:
    """Returns the same, and lets others have their turn while it looks."""
    try:
        return await index.search(topic, key, count_max, begin_timestamp, end_timestamp)
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"the key index could not be read: {error}")
