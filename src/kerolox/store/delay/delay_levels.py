"""Delay levels: the delay of each, and the diversion of messages to the schedule topic."""

from collections.abc import Callable, Mapping

import msgspec

from kerolox.errors import ConfigurationError
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove, replace
from kerolox.message.records.record import check_topic

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"

DELAY_MARK = mark(property_names.DELAY)
REAL_TOPIC_MARK = mark(property_names.REAL_TOPIC)
REAL_QID_MARK = mark(property_names.REAL_QID)

# A delay level takes precedence over timer properties, which 5.x then drops. The real topic and queue are replaced.
_REMOVED_MARKS = (
    *map(mark, (property_names.TIMER_DELIVER_MS, property_names.TIMER_DELAY_SEC, property_names.TIMER_DELAY_MS)),
    REAL_TOPIC_MARK,
    REAL_QID_MARK,
)
_CRC_MARK = mark(property_names.CRC32)
# Messages for these topics would be lost, or delayed forever.
_FORBIDDEN_TOPICS = frozenset((HALF_TOPIC, SCHEDULE_TOPIC))
_INT_MAX = 2**31 - 1
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# Delay of an unknown level.
_UNKNOWN_LEVEL_MILLIS = 1000


def parse_levels(text: str) -> dict[int, int]:
    """Return the delay of each level in milliseconds, from text such as `1s 5s 1m`; levels count from 1."""
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(), 1):
        if word[-1:] not in _UNITS or not word[:-1].isdigit():
            raise ConfigurationError(f"messageDelayLevel: {word!r} is not a delay, expected a number and s, m, h or d")
        levels[level] = int(word[:-1]) * _UNITS[word[-1]]
    return levels


def due_timestamp(levels: Mapping[int, int], level: int, store_timestamp: int) -> int:
    """Return the delivery time of a message of this level; its queue entry has it in place of a tags code."""
    return store_timestamp + levels.get(level, _UNKNOWN_LEVEL_MILLIS)


def java_int(text: bytes) -> int | None:
    """Return the number that Java's Integer.parseInt reads, or None where it refuses."""
    digits = text[1:] if text[:1] in (b"-", b"+") else text
    # Python refuses to parse thousands of digits, so leading zeros count, too.
    if not digits.isdigit() or len(digits) > 100:
        return None
    number = -int(digits) if text[:1] == b"-" else int(digits)
    return number if -_INT_MAX - 1 <= number <= _INT_MAX else None


def diversion(levels: Mapping[int, int]) -> Callable[[Message], Message]:
    """Return a diversion that moves messages with a delay level to the queue of that level."""
    level_max = max(levels, default=0)

    def divert(message: Message) -> Message:
        """Return the message to store; MessageIllegal if its delay level is not a number."""
        if DELAY_MARK not in message.properties:
            return message
        text = find(message.properties, DELAY_MARK)
        # Half messages are not delayed before their transaction is committed.
        if not text or message.topic == HALF_TOPIC:
            return message
        wanted = java_int(text)
        if wanted is None:
            raise MessageIllegal(f"{property_names.DELAY} is {text[:100]!r}, expected a whole number")
        level = min(wanted, level_max)
        return message if level <= 0 else _divert_to_level(message, level)

    return divert


def _divert_to_level(message: Message, level: int) -> Message:
    check_topic(message.topic)
    properties = message.properties
    if java_int(find(properties, DELAY_MARK)) != level:
        properties = replace(properties, DELAY_MARK, b"%d" % level)
    for name in _REMOVED_MARKS:
        properties = remove(properties, name)
    # In 5.x these come last, too, by the hash order of their names.
    real = b"%b%b\x02%b%d\x02" % (REAL_TOPIC_MARK, message.topic.encode(), REAL_QID_MARK, message.queue_id)
    return msgspec.structs.replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=join(properties, real))


def restore_message(delayed: Message) -> Message:
    """Return a delayed message with the topic and queue that it was sent to.

    The properties stay byte for byte, delay level and real topic included, as in Java; only the checksum of the old
    record is removed. MessageIllegal if the properties do not name a topic and queue.
    """
    properties = delayed.properties
    topic = find(properties, REAL_TOPIC_MARK).decode("utf-8", "replace")
    queue_id = java_int(find(properties, REAL_QID_MARK))
    if not topic or queue_id is None or topic in _FORBIDDEN_TOPICS:
        raise MessageIllegal(f"its real topic is {topic!r}, its real queue {queue_id}")
    return msgspec.structs.replace(
        delayed,
        topic=topic,
        queue_id=queue_id,
        properties=remove(properties, _CRC_MARK),
        store_timestamp=0,
        prepared_transaction_offset=0,
        queue_offset=0,
        physical_offset=0,
    )
