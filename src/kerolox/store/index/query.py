"""Finds messages by key, unique key or tag (DefaultMessageStore.queryMessage)."""

import asyncio
from collections.abc import Iterator

import msgspec

from kerolox.store.errors import StoreError
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.log.records import Records

FOREVER = 2**63 - 1
# Clients accept frames of up to 16 MiB; the rest is left for the header of the response.
_RESPONSE_SIZE_MAX = 15 * 1024 * 1024


class QueryResult(msgspec.Struct, frozen=True, gc=False):
    """Records in log order, and timestamp and offset up to which the index is complete; 0 if nothing was found."""

    records: list[bytes] = []
    index_timestamp: int = 0
    index_physical_offset: int = 0


def query(
    index: KeyIndex, records: Records, topic: str, key: bytes, count_max: int, begin_timestamp: int, end_timestamp: int
) -> QueryResult:
    """Return the newest records whose key has the same hash; the caller must compare the keys themselves.

    Java repeats the query up to three times if it found no record; that cannot change the result, so we do not.
    """
    offsets = find_offsets(index, topic, key, count_max, begin_timestamp, end_timestamp)
    return _queried(index, list(_read(records, offsets))) if offsets else QueryResult()


async def search(
    index: KeyIndex, records: Records, topic: str, key: bytes, count_max: int, begin_timestamp: int, end_timestamp: int
) -> QueryResult:
    """Return the result of `query`; lets other tasks run during a long search."""
    offsets = await search_offsets(index, topic, key, count_max, begin_timestamp, end_timestamp)
    if not offsets:
        return QueryResult()
    found: list[bytes] = []
    for record in _read(records, offsets):
        found.append(record)
        await asyncio.sleep(0)
    return _queried(index, found)


def _queried(index: KeyIndex, found: list[bytes]) -> QueryResult:
    found.reverse()
    return QueryResult(found, index.end_timestamp, index.end_physical_offset)


def _read(records: Records, offsets: list[int]) -> Iterator[bytes]:
    """Yield records, newest first, as many as fit into a response; the first one always."""
    is_first = True
    room = _RESPONSE_SIZE_MAX
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
    """Return physical offsets of records whose key has the same hash, newest first."""
    try:
        return index.query(topic, key, count_max, begin_timestamp, end_timestamp)
    except OSError as error:
        raise _unreadable(error) from error


async def search_offsets(
    index: KeyIndex, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = FOREVER
) -> list[int]:
    """Return the result of `find_offsets`; lets other tasks run during a long search."""
    try:
        return await index.search(topic, key, count_max, begin_timestamp, end_timestamp)
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> StoreError:
    return StoreError(f"the key index could not be read: {error}")
