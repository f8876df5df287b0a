"""Names and texts of popping: retry topics, receipts, and what an answer says of where its messages lie."""

from collections.abc import Iterable
from typing import Final

import msgspec

from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.errors import SystemFailure

# What is popped in order has no checkpoint; its receipts name this queue.
ORDER_REVIVE_QUEUE: Final = 999
ANY_QUEUE: Final = -1

NORMAL, RETRY_V1, RETRY_V2 = "0", "1", "2"
_SEPARATORS = {RETRY_V1: "_", RETRY_V2: "+"}
_LONG_MAX = 2**63 - 1


def retry_topic(topic: str, group: str, mark: str) -> str:
    """Returns where messages of a topic come again for a group."""
    return f"{RETRY_PREFIX}{group}{_SEPARATORS[mark]}{topic}"


def mark_of(topic: str) -> str:
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(topic: str, group: str, mark: str) -> str:
    """Returns the topic that a mark stands for; SystemFailure if it stands for none."""
    if mark == NORMAL:
        return topic
    if mark not in _SEPARATORS:
        raise SystemFailure("getRetry fail, format is wrong")
    return retry_topic(topic, group, mark)


def normal_topic(topic: str, group: str) -> str:
    """Returns the topic that messages of a pop retry topic came from; any other topic as it is."""
    for mark in (RETRY_V2, RETRY_V1):
        prefix = retry_topic("", group, mark)
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


class Receipt(msgspec.Struct, frozen=True):
    """What a consumer hands back to say which message it means (POP_CK)."""

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


def parse_receipt(text: str) -> Receipt:
    """Returns what a receipt says; SystemFailure if it is none. Old ones end with the broker's name, or the queue."""
    parts = text.split(" ")
    try:
        start, popped, invisible, revive = (_number(part) for part in parts[:4])
        queue_id = _number(parts[6]) if len(parts) > 6 else 0
        queue_offset = _number(parts[7]) if len(parts) > 7 else 0
        mark, broker_name = parts[4], parts[5]
    except (ValueError, IndexError) as error:
        raise SystemFailure(f"receipt {text[:200]!r} cannot be read: {error}") from error
    if revive < 0 or popped < 0 or invisible < 0:
        raise SystemFailure(f"receipt {text[:200]!r} has a number below 0")
    return Receipt(start, popped, invisible, revive, mark, broker_name, queue_id, queue_offset)


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
