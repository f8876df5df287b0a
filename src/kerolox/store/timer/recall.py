"""Recalls a pending timer message by storing a delete marker for its slot (RecallMessageProcessor)."""

from kerolox.message.errors import IdError
from kerolox.message.hosts import Host
from kerolox.message.ids import RecallHandle, decode_handle, encode_handle
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, to_bytes
from kerolox.store.config import StoreConfig
from kerolox.store.errors import TimerIllegal

_TAG = "_RECALL_TAG_"
_OUT_MS = mark("TIMER_OUT_MS")
_REAL_TOPIC = mark("REAL_TOPIC")
_UNIQ_KEY = mark("UNIQ_KEY")


def handle_of(diverted: Message, broker_name: str) -> str | None:
    """Return the recall handle for the producer of a diverted message; None if it cannot be recalled."""
    properties = diverted.properties
    out, topic = find(properties, _OUT_MS), find(properties, _REAL_TOPIC).decode("utf-8", "replace")
    if not out or not topic or topic.startswith("%RETRY%"):
        return None
    # Plus one millisecond, so that the recall is rounded to the same slot.
    unique_id = find(properties, _UNIQ_KEY).decode("utf-8", "replace")
    return encode_handle(RecallHandle(topic, broker_name, str(int(out) + 1), unique_id))


def recall(
    handle: str,
    config: StoreConfig,
    now: int,
    *,
    topic: str,
    broker_name: str,
    producer_group: str = "",
    born_host: Host,
    store_host: Host,
) -> Message:
    """Return the message that recalls another; it is diverted and stored like any other.

    TimerIllegal, with Java's words, if the handle is malformed, is for another topic or broker, or the message is due
    already; Java answers ILLEGAL_OPERATION.
    """
    try:
        meant = decode_handle(handle)
    except IdError as error:
        raise TimerIllegal("recall handle is invalid") from error
    if meant.topic != topic:
        raise TimerIllegal("recall failed, topic not match")
    if meant.broker_name != broker_name:
        raise TimerIllegal("recall failed, broker service not available")
    deliver = int(meant.deliver_millis) if meant.deliver_millis.isdecimal() and len(meant.deliver_millis) < 19 else -1
    if not 0 < deliver - now < config.timer_max_delay_sec * 1000:
        raise TimerIllegal("recall failed, timestamp invalid")
    named = f"{meant.topic}+{meant.unique_id}" if config.append_topic_for_timer_delete_key else meant.unique_id
    properties = {
        "TAGS": _TAG,
        "TIMER_DEL_UNIQKEY": named,
        "UNIQ_KEY": meant.unique_id,
        "TIMER_DELIVER_MS": meant.deliver_millis,
        "BORN_TIMESTAMP": str(now),
    }
    if producer_group:
        properties["PGROUP"] = producer_group
    return Message(
        meant.topic, b"0", to_bytes(properties), born_timestamp=now, born_host=born_host, store_host=store_host
    )


def is_recalled(topic: str, unique_key: bytes, recalled: set[bytes]) -> bool:
    """Whether a message is recalled, by its unique key alone or together with its topic."""
    return bool(unique_key) and (unique_key in recalled or topic.encode() + b"+" + unique_key in recalled)
