"""Finds messages by physical offset, id or key, without waiting for the disk on the event loop."""

import asyncio
from functools import partial

from kerolox.message.ids import parse_offset_id
from kerolox.message.records.summary import RecordSummary
from kerolox.store.index.key_index import KeyIndex
from kerolox.store.index.query import FOREVER, FoundRecords, QueryResult, newest_first, unreadable
from kerolox.store.log.cold_reads import ColdReads
from kerolox.store.reader import Reader

# Steps of a search in the key index, each of up to 204 entries, before other tasks run.
_STEPS_MAX = 10


class MessageLookup:
    """Coroutines with the results of the same methods of `Reader`; StoreError if the disk cannot be read.

    They suspend while the disk is read, and during long searches: many keys chosen by a client may share one hash.
    """

    def __init__(self, reader: Reader, index: KeyIndex | None, cold_reads: ColdReads) -> None:
        self._reader = reader
        self._index = index
        self._cold_reads = cold_reads

    async def record_at(self, physical_offset: int, size: int | None = None) -> bytes | None:
        """Return the bytes of a record; None if it is deleted, damaged or never existed."""
        return await self._cold_reads.read(partial(self._reader.record_at, physical_offset, size))

    async def record_of_id(self, offset_id: str) -> bytes | None:
        """Return the record of an offset message id, or None; IdError if the id is malformed."""
        _, physical_offset = parse_offset_id(offset_id)
        return await self.record_at(physical_offset)

    async def find(self, topic: str, key: bytes, *, count_max: int = 32) -> list[RecordSummary]:
        """Return the newest messages with this key or unique key; compares the keys, not only their hashes."""
        if self._index is None:
            return []
        found: list[RecordSummary] = []
        for offset in await self._offsets(self._index, topic, key, count_max, 0, FOREVER):
            known = await self._cold_reads.read(partial(self._reader.with_key, offset, topic, key))
            if known is not None:
                found.append(known)
            await asyncio.sleep(0)
        return found

    async def query(
        self,
        topic: str,
        key: bytes,
        *,
        count_max: int = 32,
        begin_timestamp: int = 0,
        end_timestamp: int = FOREVER,
        is_unique_key: bool = False,
    ) -> QueryResult:
        """Return the newest records with the hash of this key, in log order, as QUERY_MESSAGE does."""
        index = self._index
        if index is None:
            return QueryResult()
        count_max = self._reader.query_count(count_max, is_unique_key=is_unique_key)
        offsets = await self._offsets(index, topic, key, count_max, begin_timestamp, end_timestamp)
        if not offsets:
            return QueryResult()
        found = FoundRecords(self._reader.records)
        for offset in newest_first(offsets):
            if not await self._cold_reads.read(partial(found.add, offset)):
                break
            await asyncio.sleep(0)
        return found.result(index)

    async def _offsets(
        self, index: KeyIndex, topic: str, key: bytes, count_max: int, begin_timestamp: int, end_timestamp: int
    ) -> list[int]:
        """Return physical offsets of records whose key has the same hash, newest first."""
        search = index.search(topic, key, count_max, begin_timestamp, end_timestamp)
        steps = 0
        try:
            while await self._cold_reads.read(search.step):
                steps += 1
                if steps % _STEPS_MAX == 0:
                    await asyncio.sleep(0)
        except OSError as error:
            raise unreadable(error) from error
        return search.found
