"""Clients as a broker knows them: heartbeats, groups, locks, and what is passed on to one of them."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request, named
from kerolox.wire.integers import Int32


class HeartbeatTaken(Header):
    """Absent from brokers before 5.x."""

    is_support_heart_beat_v2: bool | None = named("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = named("IS_SUB_CHANGE", default=None)


class HeartBeat(Request[HeartbeatTaken], code=RequestCode.HEART_BEAT):
    """Carries HeartbeatData."""


class UnregisterClient(Request[Empty], code=RequestCode.UNREGISTER_CLIENT):
    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class CheckClientConfig(Request[Empty], code=RequestCode.CHECK_CLIENT_CONFIG):
    """Carries a CheckClientRequest: whether the broker could filter by a subscription."""


class GetConsumerListByGroup(Request[Empty], code=RequestCode.GET_CONSUMER_LIST_BY_GROUP):
    """Answered with a ConsumerList."""

    consumer_group: str


class NotifyConsumerIdsChanged(Request[Empty], code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED):
    """The broker tells consumers, oneway, that their group has changed."""

    consumer_group: str


class LockBatchMq(Request[Empty], code=RequestCode.LOCK_BATCH_MQ):
    """Carries a LockBatch; answered with the queues that are now the client's."""


class UnlockBatchMq(Request[Empty], code=RequestCode.UNLOCK_BATCH_MQ):
    """Carries a LockBatch."""


class QueryAssignment(Request[Empty], code=RequestCode.QUERY_ASSIGNMENT):
    """Carries an AssignmentRequest: the broker shares out the queues."""


class SetMessageRequestMode(Request[Empty], code=RequestCode.SET_MESSAGE_REQUEST_MODE):
    """Carries a MessageRequestMode: whether a group pulls or pops."""


class GetAllMessageRequestMode(Request[Empty], code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE):
    pass


class GetConsumerConnectionList(Request[Empty], code=RequestCode.GET_CONSUMER_CONNECTION_LIST):
    """Answered with a ConsumerConnection."""

    consumer_group: str


class GetProducerConnectionList(Request[Empty], code=RequestCode.GET_PRODUCER_CONNECTION_LIST):
    """Answered with a ProducerConnection."""

    producer_group: str


class GetAllProducerInfo(Request[Empty], code=RequestCode.GET_ALL_PRODUCER_INFO):
    """Answered with a ProducerTable."""


# Passed on to a client of the group, whose answer is the answer


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
