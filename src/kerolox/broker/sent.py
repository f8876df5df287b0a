"""How senders are answered: where each message came to lie, written without a header in between."""

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.storing import Storing
from kerolox.message.hosts import Host
from kerolox.message.plain import Found
from kerolox.message.record import Row
from kerolox.remoting.connection import Connection
from kerolox.remoting.routes import Incoming
from kerolox.store.log.commit_log import Appended
from kerolox.wire import binary
from kerolox.wire.command import JSON, ONEWAY_BIT, answer_template, binary_answer_with
from kerolox.wire.frames import PREFIX
from kerolox.wire.headers import messages as h

# In the order in which Java writes them.
_FIELDS = '"queueId":"%%d","TRACE_ON":"%s","MSG_REGION":%s,"transactionId":"%%b","msgId":"%s%%016X","queueOffset":"%%d"'
# The same in a binary header: before each value its size, in four bytes of which one is enough.
_BINARY_FIELDS = (
    b"\0\5msgId\0\0\0%c%b%%016X\0\7queueId\0\0\0%%c%%b\0\x0bqueueOffset\0\0\0%%c%%b\0\x0dtransactionId\0\0\0%%c%%b%b"
)
# So many bytes are no more than one byte can count.
UNIQUE_KEY_SIZE_MAX = 63
_pack_prefix = PREFIX.pack


class SentAnswers:
    """Writes most answers by far: to a message that is stored, and needs nothing else to be said."""

    def __init__(self, config: BrokerConfig, storing: Storing) -> None:
        self._config = config
        self._storing = storing

    def write(self, request: Incoming[h.SendMessageV2], appended: Appended, queue_id: int, unique_key: bytes) -> bytes:
        """Returns the frame; the key must be `is_plain`."""
        config, host = self._config, self._storing.store_host
        if request.serialization == JSON:
            template = _json_template(host, config.region_id, config.trace_on)
            at, number = appended.physical_offset, appended.queue_offset
            header = template % (queue_id, unique_key, at, number, request.opaque)
            size = len(header)
            return _pack_prefix(4 + size, size) + header
        queue, offset = b"%d" % queue_id, b"%d" % appended.queue_offset
        fields = _binary_template(host, config.region_id, config.trace_on) % (
            appended.physical_offset,
            len(queue),
            queue,
            len(offset),
            offset,
            len(unique_key),
            unique_key,
        )
        return binary_answer_with(fields, request.opaque)

    def send_all(
        self,
        requests: Sequence[Incoming[Any]],
        rows: Sequence[Row],
        found: Sequence[Found],
        appended: Sequence[Appended],
    ) -> None:
        """Sends the same to all who sent plain messages, and want to know; the store has it leave, as its `on_told`."""
        template = _json_template(self._storing.store_host, self._config.region_id, self._config.trace_on)
        connection: Connection | None = None
        frames: list[bytes] = []
        for request, row, (unique_key, _, _), place in zip(requests, rows, found, appended, strict=True):
            if request.flag & ONEWAY_BIT:
                continue
            if request.origin is not connection:
                if connection is not None:
                    connection.send_all(frames, is_flushed=True)
                connection, frames = request.origin, []
            if request.serialization == JSON:
                values = row[0], unique_key, place.physical_offset, place.queue_offset, request.opaque
                header = template % values
                size = len(header)
                frames.append(_pack_prefix(4 + size, size) + header)
            else:
                frames.append(self.write(request, place, row[0], unique_key))
        if connection is not None:
            connection.send_all(frames, is_flushed=True)


def is_plain(unique_key: bytes) -> bool:
    """Whether it can be put into an answer as it is, and its size into one byte."""
    return unique_key.isalnum() and len(unique_key) <= UNIQUE_KEY_SIZE_MAX


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
