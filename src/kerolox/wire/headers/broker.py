"""What tools and other brokers ask of a broker: topics, groups, statistics, configuration, maintenance."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.integers import Int32, Int64

# Topics


class UpdateAndCreateTopic(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_TOPIC):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    # Such as `+message.type=FIFO,-cleanup.policy`.
    attributes: str | None = None
    force: bool | None = None


class UpdateAndCreateTopicList(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_TOPIC_LIST):
    """Carries a TopicConfigList."""


class DeleteTopicInBroker(Request[Empty], code=RequestCode.DELETE_TOPIC_IN_BROKER):
    topic: str


class AllTopicConfig(Header):
    total_topic_num: Int32 | None = None


class GetAllTopicConfig(Request[AllTopicConfig], code=RequestCode.GET_ALL_TOPIC_CONFIG):
    """Answered with a TopicConfigTable, or a part of it."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetTopicConfig(Request[Empty], code=RequestCode.GET_TOPIC_CONFIG):
    topic: str
    lo: bool | None = None


class GetSystemTopicListFromBroker(Request[Empty], code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER):
    """Answered with a TopicList."""


class GetTopicStatsInfo(Request[Empty], code=RequestCode.GET_TOPIC_STATS_INFO):
    """Answered with a TopicStatsTable."""

    topic: str


class QueryTopicConsumeByWho(Request[Empty], code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO):
    """Answered with a GroupList."""

    topic: str


# Groups


class UpdateAndCreateSubscriptionGroup(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP):
    """Carries a SubscriptionGroupConfig."""


class UpdateAndCreateSubscriptionGroupList(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST):
    """Carries a SubscriptionGroupList."""


class AllSubscriptionGroups(Header):
    total_group_num: Int32 | None = None


class GetAllSubscriptionGroupConfig(Request[AllSubscriptionGroups], code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
    """Answered with a SubscriptionGroupTable, or a part of it."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetSubscriptionGroupConfig(Request[Empty], code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG):
    group: str


class DeleteSubscriptionGroup(Request[Empty], code=RequestCode.DELETE_SUBSCRIPTIONGROUP):
    group_name: str
    clean_offset: bool | None = None
    # Under this name in 4.9.
    remove_offset: bool | None = None


class UpdateAndGetGroupForbidden(Request[Empty], code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN):
    group: str
    topic: str
    readable: bool | None = None


class QueryTopicsByConsumer(Request[Empty], code=RequestCode.QUERY_TOPICS_BY_CONSUMER):
    """Answered with a TopicList."""

    group: str


class QuerySubscriptionByConsumer(Request[Empty], code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER):
    group: str
    topic: str | None = None


# Statistics


class GetConsumeStats(Request[Empty], code=RequestCode.GET_CONSUME_STATS):
    """Answered with ConsumeStats."""

    consumer_group: str
    topic: str | None = None
    # Parted by semicolons.
    topic_list: str | None = None


class GetBrokerConsumeStats(Request[Empty], code=RequestCode.GET_BROKER_CONSUME_STATS):
    is_order: bool


class QueryConsumeTimeSpan(Request[Empty], code=RequestCode.QUERY_CONSUME_TIME_SPAN):
    topic: str
    group: str


class QueryConsumeQueue(Request[Empty], code=RequestCode.QUERY_CONSUME_QUEUE):
    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None


class ViewBrokerStatsData(Request[Empty], code=RequestCode.VIEW_BROKER_STATS_DATA):
    stats_name: str
    stats_key: str


# The broker itself


class BrokerConfigFound(Header):
    version: str


class GetBrokerConfig(Request[BrokerConfigFound], code=RequestCode.GET_BROKER_CONFIG):
    """Answered with the text of a properties file."""


class UpdateBrokerConfig(Request[Empty], code=RequestCode.UPDATE_BROKER_CONFIG):
    """Carries the text of a properties file."""


class GetBrokerRuntimeInfo(Request[Empty], code=RequestCode.GET_BROKER_RUNTIME_INFO):
    """Answered with a KVTable."""


class GetBrokerHaStatus(Request[Empty], code=RequestCode.GET_BROKER_HA_STATUS):
    pass


class CleanExpiredConsumeQueue(Request[Empty], code=RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE):
    pass


class CleanUnusedTopic(Request[Empty], code=RequestCode.CLEAN_UNUSED_TOPIC):
    pass


class DeleteExpiredCommitLog(Request[Empty], code=RequestCode.DELETE_EXPIRED_COMMITLOG):
    pass


class ResumeCheckHalfMessage(Request[Empty], code=RequestCode.RESUME_CHECK_HALF_MESSAGE):
    """Has a transaction checked again that was given up."""

    topic: str | None = None
    msg_id: str | None = None


class GetTimerCheckPoint(Request[Empty], code=RequestCode.GET_TIMER_CHECK_POINT):
    pass


class GetTimerMetrics(Request[Empty], code=RequestCode.GET_TIMER_METRICS):
    pass


class FilterServerRegistered(Header):
    broker_name: str
    broker_id: Int64


class RegisterFilterServer(Request[FilterServerRegistered], code=RequestCode.REGISTER_FILTER_SERVER):
    filter_server_addr: str


class RegisterMessageFilterClass(Request[Empty], code=RequestCode.REGISTER_MESSAGE_FILTER_CLASS):
    """Carries the source of a Java class, which a FilterServer of 4.x would compile and run."""

    consumer_group: str | None = None
    topic: str | None = None
    class_name: str | None = None
