"""Requests about clients: heartbeats, groups, queue locks, and requests that a broker forwards to a client."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request, named
from kerolox.wire.integers import Int32


class HeartbeatTaken(Header):
    """Brokers before 5.x send no header."""

    is_support_heart_beat_v2: bool | None = named("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = named("IS_SUB_CHANGE", default=None)


class HeartBeat(Request[HeartbeatTaken], code=RequestCode.HEART_BEAT):
    """Request body: HeartbeatData."""


class UnregisterClient(Request[Empty], code=RequestCode.UNREGISTER_CLIENT):
    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class CheckClientConfig(Request[Empty], code=RequestCode.CHECK_CLIENT_CONFIG):
    """Asks whether the broker accepts a subscription. Request body: CheckClientRequest."""


class GetConsumerListByGroup(Request[Empty], code=RequestCode.GET_CONSUMER_LIST_BY_GROUP):
    """Response body: ConsumerList."""

    consumer_group: str


class NotifyConsumerIdsChanged(Request[Empty], code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED):
    """Oneway from the broker to consumers: the members of their group have changed."""

    consumer_group: str


class LockBatchMq(Request[Empty], code=RequestCode.LOCK_BATCH_MQ):
    """Request body: LockBatch. Response body: LockedQueues, the queues this client now holds."""


class UnlockBatchMq(Request[Empty], code=RequestCode.UNLOCK_BATCH_MQ):
    """Request body: LockBatch."""


class QueryAssignment(Request[Empty], code=RequestCode.QUERY_ASSIGNMENT):
    """Asks the broker to assign queues. Request body: AssignmentRequest."""


class SetMessageRequestMode(Request[Empty], code=RequestCode.SET_MESSAGE_REQUEST_MODE):
    """Sets whether a group pulls or pops. Request body: MessageRequestMode."""


class GetAllMessageRequestMode(Request[Empty], code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE):
    pass


class GetConsumerConnectionList(Request[Empty], code=RequestCode.GET_CONSUMER_CONNECTION_LIST):
    """Response body: ConsumerConnection."""

    consumer_group: str


class GetProducerConnectionList(Request[Empty], code=RequestCode.GET_PRODUCER_CONNECTION_LIST):
    """Response body: ProducerConnection."""

    producer_group: str


class GetAllProducerInfo(Request[Empty], code=RequestCode.GET_ALL_PRODUCER_INFO):
    """Response body: ProducerTable."""


# Forwarded to a client of the group; the response is that of the client


class GetConsumerRunningInfo(Request[Empty], code=RequestCode.GET_CONSUMER_RUNNING_INFO):
    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


class ConsumeMessageDirectly(Request[Empty], code=RequestCode.CONSUME_MESSAGE_DIRECTLY):
    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
