"""Converts messages of the timer topic to their real topic, or for another round."""

from typing import NamedTuple

from msgspec.structs import replace

from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, put, remove
from kerolox.message.records.record import PROPERTIES_SIZE_MAX, decode, encode
from kerolox.message.sysflag import is_queued
from kerolox.store.config import StoreConfig
from kerolox.store.errors import NotStorable
from kerolox.store.log.commit_log import Append
from kerolox.store.queue.queues import check_name
from kerolox.store.timer.divert import TIMER_TOPIC, precision

# Java's TIMER_ENQUEUE_MS of a message that was due before it could be enqueued.
NEVER_ENQUEUED = 2**63 - 1

# The timer follows a clock that is set back by more than this.
CLOCK_BACK_MILLIS = 2000

_REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
_OUT_MS = mark(property_names.TIMER_OUT_MS)
_DELAY_SEC = mark(property_names.TIMER_DELAY_SEC)
_DELAY_MS = mark(property_names.TIMER_DELAY_MS)
_ENQUEUE_MS = mark(property_names.TIMER_ENQUEUE_MS)
_DEQUEUE_MS = mark(property_names.TIMER_DEQUEUE_MS)
_ROLL_TIMES = mark(property_names.TIMER_ROLL_TIMES)
_RECALLED = mark(property_names.TIMER_DEL_UNIQKEY)
_REAL_TOPIC = mark(property_names.REAL_TOPIC)
_REAL_QID = mark(property_names.REAL_QID)
_UNIQ_KEY = mark(property_names.UNIQ_KEY)


class TimerMessage(NamedTuple):
    """A decoded message of the timer topic."""

    message: Message
    out_time: int
    real_topic: str
    unique_key: bytes
    # Unique key of the message that it recalls; empty for an ordinary message.
    recalled: bytes

    @property
    def weight(self) -> int:
        """Its contribution to the number of pending messages: -1 for a recall."""
        return -1 if self.recalled else 1


def decode_timer_message(record: bytes) -> TimerMessage | None:
    """Decode a record of the timer topic; None if it is another record, or has no delivery time."""
    try:
        message = decode(record)
    except RecordError:
        return None
    properties = message.properties
    out, topic = find(properties, _OUT_MS), find(properties, _REAL_TOPIC)
    if message.topic != TIMER_TOPIC or not out.isdigit() or len(out) > 18 or not topic:
        return None
    real_topic = topic.decode("utf-8", "replace")
    return TimerMessage(message, int(out), real_topic, find(properties, _UNIQ_KEY), find(properties, _RECALLED))


def corrected_out_time(timer_message: TimerMessage, now: int, ahead_millis: int, config: StoreConfig) -> int:
    """Return the slot of a message by the current clock, if it was stored while the clock was ahead by `ahead_millis`.

    A sender that asked for a delay gets that delay. A sender that named a time gets that time, unless it is further
    away than `timerMaxDelaySec` allows by the current clock.
    """
    stored, out_time = timer_message.message.store_timestamp, timer_message.out_time
    delay = _delay_millis(timer_message.message.properties)
    if stored > now + CLOCK_BACK_MILLIS:
        # POP checkpoints and acks name a time, but it was computed from an invisible time.
        is_delay = delay is not None or timer_message.real_topic.startswith(_REVIVE_PREFIX)
        if is_delay or out_time > now + config.timer_max_delay_sec * 1000:
            out_time -= max(ahead_millis, stored - now)
    elif delay is not None and out_time > stored + delay + CLOCK_BACK_MILLIS:
        # The clock was set back after the delivery time was computed and before the message was stored.
        out_time = stored + delay
    else:
        return out_time
    slot_millis = precision(config)
    # Rounded up, so that the message is not early.
    return -(-out_time // slot_millis) * slot_millis


def _delay_millis(properties: bytes) -> int | None:
    """Return the delay that the sender asked for; None if it named a time."""
    seconds = find(properties, _DELAY_SEC)
    delay = seconds or find(properties, _DELAY_MS)
    if not delay.isdigit() or len(delay) > 18:
        return None
    return int(delay) * (1000 if seconds else 1)


def restore_message(
    timer_message: TimerMessage, enqueue_time: int, now: int, *, rolls: bool, out_time: int | None = None
) -> Message:
    """Return the message for its real topic, or for the timer topic again if it `rolls`.

    With `out_time` it gets another slot. The timer's bookkeeping properties are omitted if the properties would become
    too long. NotStorable if it does not name a valid queue.
    """
    message = timer_message.message
    kept = message.properties if out_time is None else put(message.properties, _OUT_MS, b"%d" % max(0, out_time))
    properties = kept
    added = f"TIMER_ENQUEUE_MS\x01{enqueue_time}\x02TIMER_DEQUEUE_MS\x01{now}\x02"
    if rolls:
        added += f"TIMER_ROLL_TIMES\x01{_rolls_next(properties)}\x02"
        properties = remove(properties, _ROLL_TIMES)
    for marked in (_ENQUEUE_MS, _DEQUEUE_MS):
        properties = remove(properties, marked)
    grown = join(properties, added.encode())
    queue = find(properties, _REAL_QID)
    if not rolls and not _is_small(queue):
        raise NotStorable(f"timer message for {timer_message.real_topic!r} has no valid REAL_QID")
    return replace(
        message,
        topic=TIMER_TOPIC if rolls else timer_message.real_topic,
        queue_id=message.queue_id if rolls else int(queue),
        properties=grown if len(grown) <= PROPERTIES_SIZE_MAX else kept,
        prepared_transaction_offset=0,
    )


def _rolls_next(properties: bytes) -> int:
    times = find(properties, _ROLL_TIMES)
    return int(times) + 1 if _is_small(times) else 1


def _is_small(text: bytes) -> bool:
    return text.isdigit() and len(text) < 10


def append_of(message: Message, size_max: int) -> Append:
    """Encode a message; NotStorable if it cannot be stored, now or ever."""
    check_name(message.topic, message.queue_id)
    try:
        record = encode(message, len(message.body))
    except MessageIllegal as error:
        raise NotStorable(str(error)) from error
    if len(record) > size_max:
        raise NotStorable(f"a record of {len(record)} bytes, at most {size_max} fit into a file")
    return Append(message.topic, message.queue_id, record, is_queued=is_queued(message.sys_flag))


DeliveryKey = tuple[str, bytes, bytes, bytes]


def delivery_key(topic: str, properties: bytes) -> DeliveryKey | None:
    """Return a key that is equal for two deliveries of one message; None if the timer did not deliver it."""
    if not find(properties, _DEQUEUE_MS):
        return None
    unique_key, out = find(properties, _UNIQ_KEY), find(properties, _OUT_MS)
    if unique_key and topic == TIMER_TOPIC:
        # Its time may have been moved, and would be moved to another slot next time.
        out = b""
    return topic, unique_key, out, find(properties, _ROLL_TIMES)


def delivery_keys(timer_message: TimerMessage) -> tuple[DeliveryKey, DeliveryKey]:
    """Return the keys that a message has once it is delivered, and once it rolls or is moved."""
    properties, unique_key = timer_message.message.properties, timer_message.unique_key
    out = find(properties, _OUT_MS)
    delivered = timer_message.real_topic, unique_key, out, find(properties, _ROLL_TIMES)
    return delivered, (TIMER_TOPIC, unique_key, b"" if unique_key else out, b"%d" % _rolls_next(properties))
