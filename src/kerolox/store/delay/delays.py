"""Delay levels: how long each means, when a message of that level is due, and where it waits until then."""

from collections.abc import Callable, Mapping

import msgspec

from kerolox.errors import ConfigurationError
from kerolox.message import names
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove, replace
from kerolox.message.record import check_topic

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"

DELAY_MARK = mark(names.DELAY)
REAL_TOPIC_MARK = mark(names.REAL_TOPIC)
REAL_QID_MARK = mark(names.REAL_QID)

# A level decides over these: 5.x does not store them beside one. The others are replaced.
_REPLACED_MARKS = (
    *map(mark, (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS)),
    REAL_TOPIC_MARK,
    REAL_QID_MARK,
)
_CRC_MARK = mark(names.CRC32)
# What waits for these would be lost, or wait for ever.
_NO_TARGETS = frozenset((HALF_TOPIC, SCHEDULE_TOPIC))
_INT_MAX = 2**31 - 1
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# What a level that does not exist counts as.
_UNKNOWN_LEVEL_MILLIS = 1000


def parse_levels(text: str) -> dict[int, int]:
    """Returns the delay of each level in milliseconds, from text such as `1s 5s 1m`; levels count from 1."""
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(), 1):
        if word[-1:] not in _UNITS or not word[:-1].isdigit():
            raise ConfigurationError(f"messageDelayLevel: {word!r} is no delay, expected a number and s, m, h or d")
        levels[level] = int(word[:-1]) * _UNITS[word[-1]]
    return levels


def due_timestamp(levels: Mapping[int, int], level: int, store_timestamp: int) -> int:
    """Returns when a message of this level is due; its queue has that instead of a tags code."""
    return store_timestamp + levels.get(level, _UNKNOWN_LEVEL_MILLIS)


def java_int(text: bytes) -> int | None:
    """Returns the number that Java's Integer.parseInt reads, or None where it refuses."""
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    # The bound is on zeros too: Python refuses to read thousands of digits.
    if not digits.isdigit() or len(digits) > 100:
        return None
    number = -int(digits) if text[:1] == b"-" else int(digits)
    return number if -_INT_MAX - 1 <= number <= _INT_MAX else None


def diversion(levels: Mapping[int, int]) -> Callable[[Message], Message]:
    """Returns what sends messages with a delay level to the queue of that level, and leaves others as they are."""
    level_max = max(levels, default=0)

    def divert(message: Message) -> Message:
        """Returns the message that is stored instead; MessageIllegal if its level is no number."""
        if DELAY_MARK not in message.properties:
            return message
        text = find(message.properties, DELAY_MARK)
        # Half messages wait for their transaction first: a level applies when they are committed.
        if not text or message.topic == HALF_TOPIC:
            return message
        wanted = java_int(text)
        if wanted is None:
            raise MessageIllegal(f"{names.DELAY} is {text[:100]!r}, expected a whole number")
        level = min(wanted, level_max)
        return message if level <= 0 else _waiting(message, level)

    return divert


def _waiting(message: Message, level: int) -> Message:
    check_topic(message.topic)
    properties = message.properties
    if java_int(find(properties, DELAY_MARK)) != level:
        properties = replace(properties, DELAY_MARK, b"%d" % level)
    for marked in _REPLACED_MARKS:
        properties = remove(properties, marked)
    # At the end they stand in 5.x too, by the hash of their names.
    real = b"%b%b\x02%b%d\x02" % (REAL_TOPIC_MARK, message.topic.encode(), REAL_QID_MARK, message.queue_id)
    return msgspec.structs.replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=join(properties, real))


def restored(waiting: Message) -> Message:
    """Returns a message that has waited, for the topic and queue that it was sent to.

    The properties stay byte for byte, level and real topic among them, as in the original; only a checksum of the
    record that waited would be wrong for the new one. MessageIllegal if they do not say where it belongs.
    """
    properties = waiting.properties
    topic = find(properties, REAL_TOPIC_MARK).decode("utf-8", "replace")
    queue_id = java_int(find(properties, REAL_QID_MARK))
    if not topic or queue_id is None or topic in _NO_TARGETS:
        raise MessageIllegal(f"its real topic is {topic!r}, its real queue {queue_id}")
    return msgspec.structs.replace(
        waiting,
        topic=topic,
        queue_id=queue_id,
        properties=remove(properties, _CRC_MARK),
        store_timestamp=0,
        prepared_transaction_offset=0,
        queue_offset=0,
        physical_offset=0,
    )
