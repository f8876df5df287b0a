"""Queries of messages by key, tag and physical offset (QueryMessageProcessor)."""

from kerolox.broker.parts import BrokerParts
from kerolox.codes import ResponseCode
from kerolox.errors import SystemFailure
from kerolox.remoting.long_polling import alone
from kerolox.remoting.router import Incoming, handles
from kerolox.store.errors import StoreError
from kerolox.store.index.key_hashes import tag_key
from kerolox.wire.header import Empty
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply


class QueryMessageProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._lookup = parts.store.lookup
        self._request_queue = parts.request_queues["query"]

    @handles(h.QueryMessage, request_queue="query")
    async def query(self, request: Incoming[h.QueryMessage]) -> Reply[h.MessagesFound]:
        async with alone(self._request_queue, request.connection):
            return await self._query(request.header)

    async def _query(self, header: h.QueryMessage) -> Reply[h.MessagesFound]:
        key = header.key.encode("utf-8", "surrogateescape")
        if header.index_type == h.INDEX_TAG and not header.is_unique_key:
            key = tag_key(key)
        found = await self._lookup.query(
            header.topic,
            key,
            count_max=header.max_num,
            begin_timestamp=header.begin_timestamp,
            end_timestamp=header.end_timestamp,
            is_unique_key=bool(header.is_unique_key),
        )
        fields = h.MessagesFound(
            index_last_update_timestamp=found.index_timestamp, index_last_update_phyoffset=found.index_physical_offset
        )
        if not found.records:
            remark = "can not find message, maybe time range not correct"
            return Reply(fields, code=ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return Reply(fields, b"".join(found.records))

    @handles(h.ViewMessageById, request_queue="query")
    async def view(self, request: Incoming[h.ViewMessageById]) -> Reply[Empty]:
        offset = request.header.offset
        try:
            record = await self._lookup.record_at(offset)
        except StoreError as error:
            raise SystemFailure(f"can not find message by the offset, {offset}: {error}") from error
        if record is None:
            raise SystemFailure(f"can not find message by the offset, {offset}")
        return Reply(body=record)
