"""Heartbeats, client connections, queue locks and assignments."""

from typing import Any, Self

import msgspec

from kerolox.errors import ProtocolError
from kerolox.runtime.text.fastjson import DECODE_ERRORS, Bounds
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.integers import Int32, Int64

TAG = "TAG"
SQL92 = "SQL92"

# Java's enums in ordinal order: the C++ client sends ordinals, which fastjson accepts.
_ENUMS = {
    "consumeFromWhere": (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
    "consumeType": ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"),
    "messageModel": ("BROADCASTING", "CLUSTERING", "LITE_SELECTIVE"),
}


class SubscriptionData(Body, kw_only=True):
    """A consumer's subscription to one topic."""

    class_filter_mode: bool = False
    # Hash codes of the tags.
    code_set: list[Int32] | None = None
    expression_type: str | None = TAG
    filter_class_source: str | None = None
    sub_string: str | None = None
    # Grows with each change; clients use milliseconds or nanoseconds.
    sub_version: Int64 = 0
    tags_set: list[str] | None = None
    topic: str


class ConsumerData(Body, kw_only=True):
    consume_from_where: str | None = None
    consume_type: str | None = None
    group_name: str
    message_model: str | None = None
    subscription_data_set: list[SubscriptionData] | None = None
    unit_mode: bool = False


class ProducerData(Body):
    group_name: str


class HeartbeatData(Body, kw_only=True):
    client_id: str = msgspec.field(name="clientID")
    consumer_data_set: list[ConsumerData] | None = None
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: list[ProducerData] | None = None
    is_without_sub: bool = msgspec.field(name="withoutSub", default=False)

    @classmethod
    def decode(cls, data: bytes, bounds: Bounds | None = None) -> Self:
        """Return the decoded heartbeat. Accepts ordinals as enums and strings as numbers, which some clients send."""
        try:
            return super().decode(data, bounds)
        except ProtocolError as error:
            if bounds is not None:
                bounds.check(data, cls.__name__)
            try:
                return msgspec.convert(_with_enum_names(msgspec.json.decode(data)), cls, strict=False)
            except DECODE_ERRORS:
                raise error from None


def _with_enum_names(heartbeat: Any) -> Any:
    consumers = heartbeat.get("consumerDataSet") if isinstance(heartbeat, dict) else None
    for consumer in consumers if isinstance(consumers, list) else ():
        for member, names in _ENUMS.items() if isinstance(consumer, dict) else ():
            number = consumer.get(member)
            if type(number) is int and 0 <= number < len(names):
                consumer[member] = names[number]
    return heartbeat


class CheckClientRequest(Body):
    subscription_data: SubscriptionData | None = None
    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None


class ConsumerList(Body):
    consumer_id_list: list[str]


class LockBatch(Body, kw_only=True):
    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue] = []
    only_this_broker: bool = False


class LockedQueues(Body):
    lock_ok_mq_set: list[MessageQueue] = msgspec.field(name="lockOKMQSet")


class ClientConnection(Body, kw_only=True):
    client_addr: str
    client_id: str
    language: str
    version: Int32


class ConsumerConnection(Body, kw_only=True):
    connection_set: list[ClientConnection]
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData]


class ProducerConnection(Body):
    connection_set: list[ClientConnection]


class ProducerInfo(Body, kw_only=True):
    client_id: str
    language: str
    last_update_timestamp: Int64
    remote_ip: str = msgspec.field(name="remoteIP")
    version: Int32


class ProducerTable(Body):
    data: dict[str, list[ProducerInfo]]


class AssignmentRequest(Body, kw_only=True):
    client_id: str
    consumer_group: str
    message_model: str
    strategy_name: str | None = None
    topic: str


class Assignment(Body, kw_only=True):
    attachments: dict[str, str] | None = None
    message_queue: MessageQueue
    mode: str


class Assignments(Body):
    message_queue_assignments: list[Assignment] | None = None


class MessageRequestMode(Body, kw_only=True):
    consumer_group: str
    mode: str
    pop_share_queue_num: Int32 = 0
    topic: str
