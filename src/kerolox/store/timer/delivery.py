"""What becomes of a message in the timer's topic when its time has come: itself again, or another round."""

from typing import NamedTuple

from msgspec.structs import replace

from kerolox.message import names
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.message.record import PROPERTIES_SIZE_MAX, decode, encode
from kerolox.message.sysflag import is_queued
from kerolox.store.errors import NotStorable
from kerolox.store.log.commit_log import Draft
from kerolox.store.queue.queues import check_name
from kerolox.store.timer.divert import TIMER_TOPIC

# Java says so of what was never in the wheel, since its time had come when it was read.
NEVER_ENTERED = 2**63 - 1

_OUT_MS = mark(names.TIMER_OUT_MS)
_ENQUEUE_MS = mark(names.TIMER_ENQUEUE_MS)
_DEQUEUE_MS = mark(names.TIMER_DEQUEUE_MS)
_ROLL_TIMES = mark(names.TIMER_ROLL_TIMES)
_RECALLED = mark(names.TIMER_DEL_UNIQKEY)
_REAL_TOPIC = mark(names.REAL_TOPIC)
_REAL_QID = mark(names.REAL_QID)
_UNIQ_KEY = mark(names.UNIQ_KEY)


class Timed(NamedTuple):
    """A message of the timer's topic: whose it is, and when it is due."""

    message: Message
    out_time: int
    real_topic: str
    unique_key: bytes
    # What it recalls; empty if it is an ordinary message.
    recalled: bytes

    @property
    def weight(self) -> int:
        """What it adds to the messages that wait for its topic."""
        return -1 if self.recalled else 1


def timed(record: bytes) -> Timed | None:
    """Returns what a record of the timer's topic says; None if it is no such record, or does not say when."""
    try:
        message = decode(record)
    except RecordError:
        return None
    properties = message.properties
    out, topic = find(properties, _OUT_MS), find(properties, _REAL_TOPIC)
    if message.topic != TIMER_TOPIC or not out.isdigit() or len(out) > 18 or not topic:
        return None
    real_topic = topic.decode("utf-8", "replace")
    return Timed(message, int(out), real_topic, find(properties, _UNIQ_KEY), find(properties, _RECALLED))


def restored(waiting: Timed, enqueue_time: int, now: int, *, rolls: bool) -> Message:
    """Returns the message as it goes to its real topic, or back to the timer's if it `rolls`.

    Its bookkeeping is left out where the properties would grow too long with it. NotStorable if it has no place.
    """
    message = waiting.message
    properties = message.properties
    added = f"TIMER_ENQUEUE_MS\x01{enqueue_time}\x02TIMER_DEQUEUE_MS\x01{now}\x02"
    if rolls:
        times = find(properties, _ROLL_TIMES)
        added += f"TIMER_ROLL_TIMES\x01{int(times) + 1 if _is_small(times) else 1}\x02"
        properties = remove(properties, _ROLL_TIMES)
    for marked in (_ENQUEUE_MS, _DEQUEUE_MS):
        properties = remove(properties, marked)
    grown = join(properties, added.encode())
    queue = find(properties, _REAL_QID)
    if not rolls and not _is_small(queue):
        raise NotStorable(f"a timer message for {waiting.real_topic!r} does not say for which queue")
    return replace(
        message,
        topic=TIMER_TOPIC if rolls else waiting.real_topic,
        queue_id=message.queue_id if rolls else int(queue),
        properties=grown if len(grown) <= PROPERTIES_SIZE_MAX else message.properties,
        prepared_transaction_offset=0,
    )


def _is_small(text: bytes) -> bool:
    return text.isdigit() and len(text) < 10


def draft_of(message: Message, size_max: int) -> Draft:
    """Returns the draft of a message; NotStorable if it cannot be stored, now or ever."""
    check_name(message.topic, message.queue_id)
    try:
        record = encode(message, len(message.body))
    except MessageIllegal as error:
        raise NotStorable(str(error)) from error
    if len(record) > size_max:
        raise NotStorable(f"a record of {len(record)} bytes, at most {size_max} fit into a file")
    return Draft(message.topic, message.queue_id, record, is_queued=is_queued(message.sys_flag))


Key = tuple[str, bytes, bytes, bytes]


def key_of(topic: str, properties: bytes) -> Key | None:
    """Returns what is the same of two deliveries of one message; None of what the timer did not deliver."""
    if not find(properties, _DEQUEUE_MS):
        return None
    return topic, find(properties, _UNIQ_KEY), find(properties, _OUT_MS), find(properties, _ROLL_TIMES)
