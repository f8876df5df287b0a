"""Sends messages that are to be delivered later to the timer's own topic."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kerolox.message import names, sysflag
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark, remove
from kerolox.store.configuration import StoreConfig
from kerolox.store.delay.delays import HALF_TOPIC
from kerolox.store.errors import TimerIllegal, TimerRefused

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"

_PRECISIONS = (1000, 500, 200, 100)
# All names that matter here begin so, and few other messages have it in their properties.
ANY_TIMER: Final = b"TIMER_DEL"
_DELAY_SEC = mark(names.TIMER_DELAY_SEC)
_DELAY_MS = mark(names.TIMER_DELAY_MS)
_DELIVER_MS = mark(names.TIMER_DELIVER_MS)
_OUT_MS = mark(names.TIMER_OUT_MS)
_RECALLED = mark(names.TIMER_DEL_UNIQKEY)
_DELAY = mark(names.DELAY)
_REAL_TOPIC = mark(names.REAL_TOPIC)
_REAL_QID = mark(names.REAL_QID)
_LONG_MAX = 2**63 - 1


def divert(
    message: Message, config: StoreConfig, now: int, is_congested: Callable[[int], bool] = lambda _: False
) -> Message:
    """Returns what is to be stored instead of a message that is to be delivered later; any other message as it is.

    One whose time has come is stored as it is. TimerIllegal if its time is no number or too far away, or if it
    recalls another whose time has come; TimerRefused if timers are switched off, or `is_congested` says that too
    many messages are due at that moment already.
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
        raise TimerRefused("timer messages are switched off: timerWheelEnable=false")
    deliver = _deliver_time(properties, now)
    if not -_LONG_MAX <= deliver <= _LONG_MAX:
        raise TimerIllegal(f"a delivery at {deliver} is beyond all time")
    if deliver <= now:
        if find(properties, _RECALLED):
            raise TimerIllegal(f"a recall for {deliver}, and it is {now} already")
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
    """Returns the length of a slot in milliseconds: what is configured, or the next below it that there is."""
    return next((known for known in _PRECISIONS if config.timer_precision_ms >= known), _PRECISIONS[-1])


def out_time(deliver: int, precision: int) -> int:
    """Returns the slot of a delivery; a slot is due when it is over, so that nothing is delivered early."""
    return (deliver - 1) // precision * precision


def _may_be_timed(message: Message) -> bool:
    kind = sysflag.transaction_type(message.sys_flag)
    # Half messages wait for their transaction first: a time applies when they are committed.
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
    """Reads what Java's Long.parseLong reads, for which blanks and underscores are no part of a number."""
    digits = value[1:] if value[:1] in (b"+", b"-") else value
    significant = digits.lstrip(b"0") or b"0"
    if not digits.isdigit() or len(significant) > 19 or int(significant) > _LONG_MAX:
        raise TimerIllegal(f"{marked[:-1].decode()} is {value[:40]!r}, expected a number")
    return -int(significant) if value[:1] == b"-" else int(significant)
