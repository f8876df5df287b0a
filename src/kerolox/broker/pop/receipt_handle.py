"""Receipt handles, retry topics and the offset fields of POP responses (ExtraInfoUtil, KeyBuilder)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import SystemFailure

# The revive queue in receipts of messages that were popped in order, which have no checkpoint.
ORDER_REVIVE_QUEUE: Final = 999
ANY_QUEUE: Final = -1

# The mark in a receipt that says which topic the message was popped from.
NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
_SEPARATORS = {RETRY_V1: "_", RETRY_V2: "+"}
_LONG_MAX = 2**63 - 1


def retry_topic(topic: str, group: str, mark: str) -> str:
    """Return the topic to which messages of `topic` are revived for a group."""
    return f"{RETRY_PREFIX}{group}{_SEPARATORS[mark]}{topic}"


def mark_of(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, mark: str) -> str:
    """Return the topic that a mark stands for; SystemFailure if the mark is invalid."""
    if mark == NORMAL:
        return topic
    if mark not in _SEPARATORS:
        raise SystemFailure("getRetry fail, format is wrong")
    return retry_topic(topic, group, mark)


def normal_topic(topic: str, group: str) -> str:
    """Return the topic that a POP retry topic belongs to; any other topic unchanged."""
    for mark in (RETRY_V2, RETRY_V1):
        prefix = retry_topic("", group, mark)
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


class ReceiptHandle(msgspec.Struct, frozen=True):
    """Identifies a popped message in acks (property POP_CK)."""

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    mark: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return " ".join(str(value) for value in msgspec.structs.astuple(self))

    @property
    def is_ordered(self) -> bool:
        return self.revive_queue_id == ORDER_REVIVE_QUEUE


def parse_receipt(text: str) -> ReceiptHandle:
    """Parse a receipt handle; SystemFailure if it is invalid. Old ones end after the broker name or the queue."""
    parts = text.split(" ")
    try:
        start, popped, invisible, revive = (_number(part) for part in parts[:4])
        queue_id = _number(parts[6]) if len(parts) > 6 else 0
        queue_offset = _number(parts[7]) if len(parts) > 7 else 0
        mark, broker_name = parts[4], parts[5]
    except (ValueError, IndexError) as error:
        raise SystemFailure(f"invalid receipt handle {text[:200]!r}: {error}") from error
    if revive < 0 or popped < 0 or invisible < 0:
        raise SystemFailure(f"invalid receipt handle {text[:200]!r}: negative number")
    return ReceiptHandle(start, popped, invisible, revive, mark, broker_name, queue_id, queue_offset)


def _number(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"a number of {len(text)} digits")
    number = int(text)
    if not -_LONG_MAX <= number <= _LONG_MAX:
        raise ValueError(f"{number} is too large")
    return number


def start_info(topic: str, queue_id: int, start_offset: int) -> str:
    return f"{mark_of(topic)} {queue_id} {start_offset}"


def offsets_info(topic: str, queue_id: int, offsets: Iterable[int]) -> str:
    return f"{mark_of(topic)} {queue_id} {','.join(map(str, offsets))}"
