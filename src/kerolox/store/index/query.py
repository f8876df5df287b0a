"""Finds messages by key, unique key or tag (DefaultMessageStore.queryMessage)."""

from collections.abc import Iterable

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
    if not offsets:
        return QueryResult()
    found = FoundRecords(records)
    for offset in newest_first(offsets):
        if not found.add(offset):
            break
    return found.result(index)


class FoundRecords:
    """Collects the records of a result, newest first, as many as fit into a response; the first one always."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._found: list[bytes] = []
        self._room = _RESPONSE_SIZE_MAX

    def add(self, physical_offset: int) -> bool:
        """Read the next record, if there is one; False if there is no room for it. Can be repeated if it fails."""
        size = self._records.size_at(physical_offset)
        if size > self._room and self._found:
            return False
        record = self._records.at(physical_offset, size)
        if record is not None:
            self._found.append(record)
            self._room -= size
        return True

    def result(self, index: KeyIndex) -> QueryResult:
        return QueryResult(self._found[::-1], index.end_timestamp, index.end_physical_offset)


def newest_first(offsets: Iterable[int]) -> list[int]:
    return sorted(offsets, reverse=True)


def find_offsets(
    index: KeyIndex, topic: str, key: bytes, count_max: int, begin_timestamp: int = 0, end_timestamp: int = FOREVER
) -> list[int]:
    """Return physical offsets of records whose key has the same hash, newest first."""
    try:
        return index.query(topic, key, count_max, begin_timestamp, end_timestamp)
    except OSError as error:
        raise unreadable(error) from error


def unreadable(error: OSError) -> StoreError:
    return StoreError(f"the key index could not be read: {error}")
