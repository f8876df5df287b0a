"""Half messages: their properties, and the messages they become (TransactionalMessageUtil)."""

from typing import Final

from msgspec.structs import replace

from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC
from kerolox.message import property_names, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.message.records.record import encode
from kerolox.store.delay.delay_levels import DELAY_MARK, REAL_QID_MARK, REAL_TOPIC_MARK, java_int
from kerolox.store.log.commit_log import Append

TRAN_MSG_MARK: Final = mark(property_names.TRAN_MSG)
# The half topic and the op topic have a single queue.
QUEUE_ID: Final = 0

_UNIQ_KEY = mark(property_names.UNIQ_KEY)
_TRANSACTION_ID = mark(property_names.TRANSACTION_ID)
_GROUP = mark(property_names.PGROUP)
_CHECK_TIMES = mark(property_names.TRANSACTION_CHECK_TIMES)
_IMMUNITY = mark(property_names.CHECK_IMMUNITY_TIME_IN_SECONDS)
_PREPARED_QUEUE_OFFSET = mark(property_names.TRAN_PREPARED_QUEUE_OFFSET)
_CRC = mark(property_names.CRC32)
_NO_TARGETS = frozenset((HALF_TOPIC, ""))


def is_half(message: Message) -> bool:
    """Whether a message, as it was sent, is part of a transaction."""
    if find(message.properties, TRAN_MSG_MARK).lower() != b"true":
        return False
    # Clients before 4.6.1 send a message back for retry with all its original properties.
    return not (message.reconsume_times > 0 and (java_int(find(message.properties, DELAY_MARK)) or 0) > 0)


def prepared(message: Message) -> Message:
    """Return the half message that is stored instead of a sent message."""
    properties = message.properties
    more = b"%b%b\x02%b%d\x02" % (REAL_TOPIC_MARK, message.topic.encode(), REAL_QID_MARK, message.queue_id)
    if unique_key := find(properties, _UNIQ_KEY):
        properties = remove(properties, _TRANSACTION_ID)
        more = b"%b%b\x02%b" % (_TRANSACTION_ID, unique_key, more)
    for marked in (REAL_TOPIC_MARK, REAL_QID_MARK):
        properties = remove(properties, marked)
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=QUEUE_ID,
        sys_flag=sysflag.with_transaction_type(message.sys_flag, sysflag.NOT_TRANSACTION),
        properties=join(properties, more),
    )


def topic_of(half: Message) -> str:
    """Return the topic that a half message was sent to; empty if the property is missing."""
    return find(half.properties, REAL_TOPIC_MARK).decode("utf-8", "replace")


def target(half: Message) -> tuple[str, int]:
    """Return the topic and queue that a half message was sent to; MessageIllegal if the properties are invalid."""
    topic = topic_of(half)
    queue_id = java_int(find(half.properties, REAL_QID_MARK))
    if topic in _NO_TARGETS or queue_id is None:
        raise MessageIllegal(f"half message has an invalid target: topic {topic!r}, queue {queue_id}")
    return topic, queue_id


def committed(half: Message) -> Message:
    """Return the committed message. As in RocketMQ 5.5, it has no REAL_TOPIC and REAL_QID any more."""
    topic, queue_id = target(half)
    properties = half.properties
    for marked in (REAL_TOPIC_MARK, REAL_QID_MARK, _CRC):
        properties = remove(properties, marked)
    return replace(
        half,
        topic=topic,
        queue_id=queue_id,
        properties=properties,
        sys_flag=sysflag.with_transaction_type(half.sys_flag, sysflag.COMMIT),
        prepared_transaction_offset=half.physical_offset,
        queue_offset=0,
        physical_offset=0,
        store_timestamp=0,
    )


def with_check_times(half: Message, check_times: int) -> Message:
    """Return the half message that is put back while its producer is asked for the `check_times`-th time."""
    return _put_back(half, _CHECK_TIMES, check_times)


def postponed(half: Message) -> Message:
    """Return the half message that is put back because its immunity time is not over."""
    first = find(half.properties, _PREPARED_QUEUE_OFFSET)
    return _put_back(half, _PREPARED_QUEUE_OFFSET, int(first) if first.isdigit() else half.queue_offset)


def _put_back(half: Message, marked: bytes, number: int) -> Message:
    properties = remove(remove(half.properties, marked), _CRC)
    properties = join(properties, b"%b%d\x02" % (marked, number))
    return replace(half, topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=properties)


def discarded(half: Message) -> Message:
    """Return the copy of a half message for TRANS_CHECK_MAX_TIME_TOPIC, where operators can find it."""
    return replace(half, topic=CHECK_MAX_TOPIC, queue_id=0, properties=remove(half.properties, _CRC))


def append_of(message: Message) -> Append:
    """Return the append of a message that was in the log before: without delay or timer, and without a waiter."""
    record = encode(message, body_size_max=max(len(message.body), 1))
    return Append(message.topic, message.queue_id, record, is_awaited=False)


def producer_group(half: Message) -> str:
    return find(half.properties, _GROUP).decode("utf-8", "replace")


def unique_key(half: Message) -> bytes:
    return find(half.properties, _UNIQ_KEY)


def check_times(half: Message) -> int:
    """Return how often the producer was asked; -1, as in Java, if the property is not a number."""
    text = find(half.properties, _CHECK_TIMES)
    times = java_int(text) if text else 0
    return -1 if times is None else times


def immunity_seconds(half: Message) -> int | None:
    """Return CHECK_IMMUNITY_TIME_IN_SECONDS; None if it is not set, -1 if it is not a number."""
    text = find(half.properties, _IMMUNITY)
    if not text:
        return None
    seconds = java_int(text)
    return -1 if seconds is None else seconds
