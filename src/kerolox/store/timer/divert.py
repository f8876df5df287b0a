"""Diverts messages with a delivery time to the timer topic (HookUtils.transformTimerMessage)."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kerolox.message import property_names, sysflag
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.store.config import StoreConfig
from kerolox.store.delay.delay_levels import HALF_TOPIC
from kerolox.store.errors import TimerIllegal, TimerRefused

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

_PRECISIONS = (1000, 500, 200, 100)
# Common prefix of the names of all relevant properties; rare in other messages.
ANY_TIMER: Final = b"TIMER_DEL"
_DELAY_SEC = mark(property_names.TIMER_DELAY_SEC)
_DELAY_MS = mark(property_names.TIMER_DELAY_MS)
_DELIVER_MS = mark(property_names.TIMER_DELIVER_MS)
_OUT_MS = mark(property_names.TIMER_OUT_MS)
_RECALLED = mark(property_names.TIMER_DEL_UNIQKEY)
_DELAY = mark(property_names.DELAY)
_REAL_TOPIC = mark(property_names.REAL_TOPIC)
_REAL_QID = mark(property_names.REAL_QID)
_LONG_MAX = 2**63 - 1


def divert(
    message: Message, config: StoreConfig, now: int, is_congested: Callable[[int], bool] = lambda _: False
) -> Message:
    """Return the message to store: for the timer topic if it has a delivery time in the future, else unchanged.

    TimerIllegal if its time is not a number or too far away, or if it is a recall of a message that is due already.
    TimerRefused if timers are disabled, or `is_congested` tells that too many messages are due in that slot.
    """
    properties = message.properties
    if ANY_TIMER not in properties or not _may_be_timed(message):
        return message
    delay = find(properties, _DELAY)
    if delay.isdigit() and delay.strip(b"0"):
        for marked in (_DELIVER_MS, _DELAY_SEC, _DELAY_MS):
            properties = remove(properties, marked)
        return replace(message, properties=properties)
    if not any(find(properties, marked) for marked in (_DELIVER_MS, _DELAY_SEC, _DELAY_MS)):
        return message
    if not config.timer_wheel_enable:
        raise TimerRefused("timer messages are disabled: timerWheelEnable=false")
    deliver = _deliver_time(properties, now)
    if not -_LONG_MAX <= deliver <= _LONG_MAX:
        raise TimerIllegal(f"the delivery time {deliver} is out of range")
    if deliver <= now:
        if find(properties, _RECALLED):
            raise TimerIllegal(f"the recall is too late: the message is due at {deliver}, the time is {now}")
        return message
    if deliver - now > config.timer_max_delay_sec * 1000:
        raise TimerIllegal(f"a delay of {deliver - now} ms, at most {config.timer_max_delay_sec} s allowed")
    out = out_time(deliver, precision(config))
    if is_congested(out):
        raise TimerRefused(f"too many messages are due at {out}, timerCongestNumEachSlot is exceeded")
    for marked in (_REAL_TOPIC, _REAL_QID):
        properties = remove(properties, marked)
    more = f"TIMER_OUT_MS\x01{out}\x02REAL_TOPIC\x01{message.topic}\x02REAL_QID\x01{message.queue_id}\x02"
    return replace(message, properties=join(properties, more.encode()), topic=TIMER_TOPIC, queue_id=0)


def precision(config: StoreConfig) -> int:
    """Return the length of a slot in milliseconds: the configured value, rounded down to a supported one."""
    return next((known for known in _PRECISIONS if config.timer_precision_ms >= known), _PRECISIONS[-1])


def out_time(deliver: int, precision: int) -> int:
    """Return the slot of a delivery time. A slot is delivered when it is over, so that nothing is early."""
    return (deliver - 1) // precision * precision


def _may_be_timed(message: Message) -> bool:
    kind = sysflag.transaction_type(message.sys_flag)
    # Half messages are not timed before their transaction is committed.
    if kind not in (sysflag.NOT_TRANSACTION, sysflag.COMMIT) or message.topic in (TIMER_TOPIC, HALF_TOPIC):
        return False
    return not find(message.properties, _OUT_MS)


def _deliver_time(properties: bytes, now: int) -> int:
    if value := find(properties, _DELAY_SEC):
        return now + _number(_DELAY_SEC, value) * 1000
    if value := find(properties, _DELAY_MS):
        return now + _number(_DELAY_MS, value)
    return _number(_DELIVER_MS, find(properties, _DELIVER_MS))


def _number(marked: bytes, value: bytes) -> int:
    """Parse a number like Java's Long.parseLong, which accepts neither blanks nor underscores."""
    digits = value[1:] if value[:1] in (b"+", b"-") else value
    significant = digits.lstrip(b"0") or b"0"
    if not digits.isdigit() or len(significant) > 19 or int(significant) > _LONG_MAX:
        raise TimerIllegal(f"{marked[:-1].decode()} is {value[:40]!r}, expected a number")
    return -int(significant) if value[:1] == b"-" else int(significant)
