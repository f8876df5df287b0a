"""Half messages: how a message waits for its transaction, and what it becomes."""

from typing import Final

from msgspec.structs import replace

from kerolox.broker.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC
from kerolox.message import names, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.message.record import encode
from kerolox.store.delay.delays import DELAY_MARK, REAL_QID_MARK, REAL_TOPIC_MARK, java_int
from kerolox.store.log.commit_log import Draft

TRAN_MSG_MARK: Final = mark(names.TRAN_MSG)
# The only queue that half messages wait in, and that of what became of them.
QUEUE_ID: Final = 0

_UNIQ_KEY = mark(names.UNIQ_KEY)
_TRANSACTION_ID = mark(names.TRANSACTION_ID)
_GROUP = mark(names.PGROUP)
_CHECK_TIMES = mark(names.TRANSACTION_CHECK_TIMES)
_IMMUNITY = mark(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
_PREPARED_QUEUE_OFFSET = mark(names.TRAN_PREPARED_QUEUE_OFFSET)
_CRC = mark(names.CRC32)
_NO_TARGETS = frozenset((HALF_TOPIC, ""))


def is_half(message: Message) -> bool:
    """Whether a message as it was sent is to wait for its transaction."""
    if find(message.properties, TRAN_MSG_MARK).lower() != b"true":
        return False
    # Clients before 4.6.1 send a message that is to be consumed again with all the properties it came with.
    return not (message.reconsume_times > 0 and (java_int(find(message.properties, DELAY_MARK)) or 0) > 0)


def prepared(message: Message) -> Message:
    """Returns the half message that is stored instead."""
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
    """Returns the topic that a half message was sent to; empty if it does not say."""
    return find(half.properties, REAL_TOPIC_MARK).decode("utf-8", "replace")


def target(half: Message) -> tuple[str, int]:
    """Returns the topic and queue that a half message was sent to; MessageIllegal if it does not say."""
    topic = topic_of(half)
    queue_id = java_int(find(half.properties, REAL_QID_MARK))
    if topic in _NO_TARGETS or queue_id is None:
        raise MessageIllegal(f"a half message for topic {topic!r}, queue {queue_id}")
    return topic, queue_id


def committed(half: Message) -> Message:
    """Returns the message that consumers get. As in 5.5, it no longer says that it was one for there."""
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


def again(half: Message, check_times: int) -> Message:
    """Returns the half message that waits in its place while its producer is asked for the so-manieth time."""
    return _put_back(half, _CHECK_TIMES, check_times)


def spared(half: Message) -> Message:
    """Returns the half message that waits in its place until it may be asked about."""
    first = find(half.properties, _PREPARED_QUEUE_OFFSET)
    return _put_back(half, _PREPARED_QUEUE_OFFSET, int(first) if first.isdigit() else half.queue_offset)


def _put_back(half: Message, marked: bytes, number: int) -> Message:
    properties = remove(remove(half.properties, marked), _CRC)
    properties = join(properties, b"%b%d\x02" % (marked, number))
    return replace(half, topic=HALF_TOPIC, queue_id=QUEUE_ID, properties=properties)


def given_up(half: Message) -> Message:
    """Returns the message that is kept for an operator to look at."""
    return replace(half, topic=CHECK_MAX_TOPIC, queue_id=0, properties=remove(half.properties, _CRC))


def draft_of(message: Message) -> Draft:
    """Returns what is stored of a message that has been in the log before; nothing diverts it, nobody waits for it."""
    record = encode(message, body_size_max=max(len(message.body), 1))
    return Draft(message.topic, message.queue_id, record, is_awaited=False)


def producer_group(half: Message) -> str:
    return find(half.properties, _GROUP).decode("utf-8", "replace")


def unique_key(half: Message) -> bytes:
    return find(half.properties, _UNIQ_KEY)


def check_times(half: Message) -> int:
    """Returns how often its producer was asked; -1, as in the original, for what is no number."""
    text = find(half.properties, _CHECK_TIMES)
    times = java_int(text) if text else 0
    return -1 if times is None else times


def immunity_seconds(half: Message) -> int | None:
    """Returns for how long its producer wants not to be asked; None if it did not say, -1 if that is no number."""
    text = find(half.properties, _IMMUNITY)
    if not text:
        return None
    seconds = java_int(text)
    return -1 if seconds is None else seconds
