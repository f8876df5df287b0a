"""Responses to sends: encodes where each message was stored from templates, without a header object."""

import functools
from collections.abc import Sequence
from itertools import compress, count
from operator import add, is_not
from typing import Any, TypeAlias

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.send.columns import SendColumns
from kerolox.broker.send.put import MessagePut
from kerolox.message.hosts import Host
from kerolox.remoting.router import Incoming
from kerolox.store.log.commit_log import Append, Appended
from kerolox.wire import binary
from kerolox.wire.command import JSON, ONEWAY_BIT, answer_template, binary_answer_with
from kerolox.wire.frames import PREFIX

# In the order in which Java writes them.
_FIELDS = '"queueId":"%%d","TRACE_ON":"%s","MSG_REGION":%s,"transactionId":"%%b","msgId":"%s%%016X","queueOffset":"%%d"'
# The fields of a binary header: each value follows its size in four bytes, of which only the last is not zero.
_BINARY_FIELDS = (
    b"\0\5msgId\0\0\0%c%b%%016X\0\7queueId\0\0\0%%c%%b\0\x0bqueueOffset\0\0\0%%c%%b\0\x0dtransactionId\0\0\0%%c%%b%b"
)
# The size must fit into the last byte of its field.
UNIQUE_KEY_SIZE_MAX = 63
_pack_prefix = PREFIX.pack

# Where a message was stored: (queue id, physical offset, queue offset).
Place: TypeAlias = tuple[int, int, int]


class SendResponses:
    """Encodes the usual response: the message is stored, and nothing else is to be reported."""

    def __init__(self, config: BrokerConfig, message_put: MessagePut) -> None:
        self._config = config
        self._message_put = message_put

    def write(self, request: Incoming[Any], place: Place, unique_key: bytes) -> bytes:
        """Return the response frame; the unique key must be `is_plain`."""
        config, host = self._config, self._message_put.store_host
        queue_id, physical_offset, queue_offset = place
        if request.serialization == JSON:
            template = _json_template(host, config.region_id, config.trace_on)
            header = template % (queue_id, unique_key, physical_offset, queue_offset, request.opaque)
            return _prefix(len(header)) + header
        return self._binary(queue_id, physical_offset, queue_offset, unique_key, request.opaque)

    def _binary(self, queue_id: int, physical_offset: int, queue_offset: int, unique_key: bytes, opaque: int) -> bytes:
        config = self._config
        queue, offset = b"%d" % queue_id, b"%d" % queue_offset
        fields = _binary_template(self._message_put.store_host, config.region_id, config.trace_on) % (
            physical_offset,
            len(queue),
            queue,
            len(offset),
            offset,
            len(unique_key),
            unique_key,
        )
        return binary_answer_with(fields, opaque)

    def send_all(self, sends: SendColumns, places: Sequence[Place]) -> None:
        """Queue the responses to plain sends, except oneway ones; the store flushes them with its callback."""
        are_json = [serialization == JSON for serialization in sends.serializations]
        rows = list(zip(places, sends.unique_keys, sends.opaques, strict=True))
        if all(are_json):
            frames = self._json(rows)
        else:
            in_json = iter(self._json(list(compress(rows, are_json))))
            frames = [
                next(in_json) if is_json else self._binary(*place, unique_key, opaque)
                for is_json, (place, unique_key, opaque) in zip(are_json, rows, strict=True)
            ]
        origins, flags = sends.origins, sends.request_flags
        if any(flags):
            is_awaited = [not flag & ONEWAY_BIT for flag in flags]
            frames, origins = list(compress(frames, is_awaited)), list(compress(origins, is_awaited))
        # The responses of one connection are sent together.
        changes = compress(count(1), map(is_not, origins[1:], origins))
        start = 0
        for end in (*changes, len(origins)):
            if end > start:
                origins[start].send_all(frames[start:end], is_flushed=True)
            start = end

    def _json(self, rows: Sequence[tuple[Place, bytes, int]]) -> list[bytes]:
        template = _json_template(self._message_put.store_host, self._config.region_id, self._config.trace_on)
        headers = [
            template % (queue_id, unique_key, physical_offset, queue_offset, opaque)
            for (queue_id, physical_offset, queue_offset), unique_key, opaque in rows
        ]
        return list(map(add, map(_prefix, map(len, headers)), headers))


def places_of(draft: Append, appended: Appended) -> list[Place]:
    """Return where each record of an append was stored."""
    assert draft.queues is not None
    physical_offsets = map(appended.physical_offset.__add__, draft.starts)
    queue_ids = [queue_id for _, queue_id in draft.queues]
    return list(zip(queue_ids, physical_offsets, draft.queue_offsets, strict=True))


def is_plain(unique_key: bytes) -> bool:
    """Whether a unique key needs no escaping in a response, and its size fits into one byte."""
    return unique_key.isalnum() and len(unique_key) <= UNIQUE_KEY_SIZE_MAX


@functools.lru_cache(maxsize=1024)
def _prefix(size: int) -> bytes:
    """Return the frame prefix of a JSON header of `size` bytes without a body."""
    return _pack_prefix(4 + size, size)


@functools.lru_cache(maxsize=16)
def _json_template(host: Host, region: str, is_traced: bool) -> bytes:
    text = msgspec.json.encode(region).decode().replace("%", "%%")
    fields = _FIELDS % ("true" if is_traced else "false", text, host.hex().upper())
    return answer_template(fields.encode())


@functools.lru_cache(maxsize=16)
def _binary_template(host: Host, region: str, is_traced: bool) -> bytes:
    last = binary.encode_fields({"MSG_REGION": region, "TRACE_ON": "true" if is_traced else "false"})
    text = host.hex().upper().encode()
    return _BINARY_FIELDS % (len(text) + 16, text, last.replace(b"%", b"%%"))
