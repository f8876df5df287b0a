"""Reads every record of a broker over the wire: by queue, by message id and by key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kerolox.codes import RequestCode
from kerolox.errors import QueryNotFound
from kerolox.message.records.record import decode_all, size_and_magic
from kerolox.remoting.client import Client
from kerolox.wire.header import Empty, Header, Request, named

# (topic, queue id) → records from the first offset on.
Contents = dict[tuple[str, int], list[bytes]]
# (topic, key) → physical offsets.
KeyOffsets = dict[tuple[str, str], list[int]]

KEY_HITS_MAX = 64
_TIMEOUT_SECONDS = 10.0
_SUBSCRIPTION_IN_REQUEST = 0x4


class Pulled(Header):
    next_begin_offset: int


class PullMessage(Request[Pulled], code=RequestCode.PULL_MESSAGE):
    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int = 32
    sys_flag: int = _SUBSCRIPTION_IN_REQUEST
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    subscription: str = "*"
    sub_version: int = 0
    expression_type: str = "TAG"


class Position(Header):
    offset: int


class GetMaxOffset(Request[Position], code=RequestCode.GET_MAX_OFFSET):
    topic: str
    queue_id: int


class GetMinOffset(Request[Position], code=RequestCode.GET_MIN_OFFSET):
    topic: str
    queue_id: int


class ViewMessageById(Request[Empty], code=RequestCode.VIEW_MESSAGE_BY_ID):
    offset: int


class QueryMessage(Request[Empty], code=RequestCode.QUERY_MESSAGE):
    topic: str
    key: str
    max_num: int = KEY_HITS_MAX
    begin_timestamp: int = 0
    end_timestamp: int = 2**63 - 1
    is_unique_key: str = named("_UNIQUE_KEY_QUERY", default="false")


class BrokerReader:
    """Reads from the broker at `address`; its store directory `root` is used only to list the queues."""

    def __init__(self, client: Client, address: str, root: Path) -> None:
        self._client = client
        self._address = address
        self._root = root

    async def by_queue(self) -> Contents:
        """Return the records of all queues, including those of system topics."""
        queues = sorted((path.parent.name, int(path.name)) for path in (self._root / "consumequeue").glob("*/*"))
        contents = {queue: await self._records(*queue) for queue in queues}
        return {queue: records for queue, records in contents.items() if records}

    async def _records(self, topic: str, queue_id: int) -> list[bytes]:
        offset = (await self._call(GetMinOffset(topic=topic, queue_id=queue_id))).offset
        end = (await self._call(GetMaxOffset(topic=topic, queue_id=queue_id))).offset
        records: list[bytes] = []
        while offset < end:
            pull = PullMessage(consumer_group="served", topic=topic, queue_id=queue_id, queue_offset=offset)
            reply = await self._client.call(self._address, pull, timeout_seconds=_TIMEOUT_SECONDS)
            records += split(reply.body)
            offset = reply.fields.next_begin_offset
        return records

    async def _call(self, request: Request[Position]) -> Position:
        return (await self._client.call(self._address, request, timeout_seconds=_TIMEOUT_SECONDS)).fields

    async def by_id(self, physical_offset: int) -> bytes:
        view = ViewMessageById(offset=physical_offset)
        return (await self._client.call(self._address, view, timeout_seconds=_TIMEOUT_SECONDS)).body

    async def by_key(self, keys: Iterable[tuple[str, str]]) -> KeyOffsets:
        """Return the physical offsets of the messages with each key, without hash collisions."""
        return {(topic, key): await self._key_offsets(topic, key) for topic, key in keys}

    async def _key_offsets(self, topic: str, key: str) -> list[int]:
        query = QueryMessage(topic=topic, key=key)
        try:
            reply = await self._client.call(self._address, query, timeout_seconds=_TIMEOUT_SECONDS)
        except QueryNotFound:
            return []
        found = decode_all(reply.body, check_crc=True)
        # Deduplicated: after a kill, Java indexes the last message again.
        offsets = {
            message.physical_offset
            for message in found
            if message.topic == topic and key in (message.get("UNIQ_KEY"), *message.keys)
        }
        return sorted(offsets)


def split(body: bytes) -> list[bytes]:
    """Split a body into its records."""
    records: list[bytes] = []
    at = 0
    while at < len(body):
        size, _ = size_and_magic(body, at)
        records.append(body[at : at + size])
        at += size
    return records
