"""Responses to batches, encoded from templates without a header object."""

import functools
import struct
from collections.abc import Sequence

import msgspec

from kerolox.message.hosts import Host
from kerolox.wire import binary
from kerolox.wire.command import JSON, answer_template, binary_answer_with
from kerolox.wire.frames import PREFIX

_INT = struct.Struct(">i")
_pack_prefix = PREFIX.pack


def offset_ids(store_host: Host, physical_offset: int, starts: Sequence[int]) -> str:
    """Return the offset ids of the messages of a batch, separated by commas."""
    host = store_host.hex().upper()
    offsets = struct.pack(f">{len(starts)}q", *map(physical_offset.__add__, starts))
    return host + offsets.hex(",", 8).upper().replace(",", "," + host)


def write(
    serialization: int, opaque: int, ids: str, place: tuple[int, int], unique_key: bytes, region: str, is_traced: bool
) -> bytes:
    """Return the response frame; `place` is (queue id, queue offset), the unique key is `is_plain` or empty."""
    queue, offset = b"%d" % place[0], b"%d" % place[1]
    if serialization == JSON:
        transaction = b',"transactionId":"%b"' % unique_key if unique_key else b""
        header = _json_template(region, is_traced) % (ids.encode(), queue, offset, transaction, opaque)
        size = len(header)
        return _pack_prefix(4 + size, size) + header
    section = b"".join(
        (
            b"\0\5msgId",
            _INT.pack(len(ids)),
            ids.encode(),
            b"\0\7queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b" % (len(queue), queue, len(offset), offset),
            b"\0\x0dtransactionId\0\0\0%c%b" % (len(unique_key), unique_key) if unique_key else b"",
            _binary_end(region, is_traced),
        )
    )
    return binary_answer_with(section, opaque)


@functools.lru_cache(maxsize=16)
def _json_template(region: str, is_traced: bool) -> bytes:
    text = msgspec.json.encode(region).decode().replace("%", "%%")
    fields = f'"msgId":"%b","queueId":"%b","queueOffset":"%b"%b,"MSG_REGION":{text},"TRACE_ON":"{_traced(is_traced)}"'
    return answer_template(fields.encode())


@functools.lru_cache(maxsize=16)
def _binary_end(region: str, is_traced: bool) -> bytes:
    return binary.encode_fields({"MSG_REGION": region, "TRACE_ON": _traced(is_traced)})


def _traced(is_traced: bool) -> str:
    return "true" if is_traced else "false"
