"""Administrative requests to a broker: topics, groups, statistics, configuration, maintenance."""

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
    # For example `+message.type=FIFO,-cleanup.policy`: `+` sets an attribute, `-` deletes it.
    attributes: str | None = None
    force: bool | None = None


class UpdateAndCreateTopicList(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_TOPIC_LIST):
    """Request body: TopicConfigList."""


class DeleteTopicInBroker(Request[Empty], code=RequestCode.DELETE_TOPIC_IN_BROKER):
    topic: str


class AllTopicConfig(Header):
    total_topic_num: Int32 | None = None


class GetAllTopicConfig(Request[AllTopicConfig], code=RequestCode.GET_ALL_TOPIC_CONFIG):
    """Response body: TopicConfigTable, or one page of it."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetTopicConfig(Request[Empty], code=RequestCode.GET_TOPIC_CONFIG):
    topic: str
    lo: bool | None = None


class GetSystemTopicListFromBroker(Request[Empty], code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER):
    """Response body: TopicList."""


class GetTopicStatsInfo(Request[Empty], code=RequestCode.GET_TOPIC_STATS_INFO):
    """Response body: TopicStatsTable."""

    topic: str


class QueryTopicConsumeByWho(Request[Empty], code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO):
    """Response body: GroupList."""

    topic: str


# Groups


class UpdateAndCreateSubscriptionGroup(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP):
    """Request body: SubscriptionGroupConfig."""


class UpdateAndCreateSubscriptionGroupList(Request[Empty], code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST):
    """Request body: SubscriptionGroupList."""


class AllSubscriptionGroups(Header):
    total_group_num: Int32 | None = None


class GetAllSubscriptionGroupConfig(Request[AllSubscriptionGroups], code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG):
    """Response body: SubscriptionGroupTable, or one page of it."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetSubscriptionGroupConfig(Request[Empty], code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG):
    group: str


class DeleteSubscriptionGroup(Request[Empty], code=RequestCode.DELETE_SUBSCRIPTIONGROUP):
    group_name: str
    clean_offset: bool | None = None
    # The name of `clean_offset` in 4.9.
    remove_offset: bool | None = None


class UpdateAndGetGroupForbidden(Request[Empty], code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN):
    group: str
    topic: str
    readable: bool | None = None


class QueryTopicsByConsumer(Request[Empty], code=RequestCode.QUERY_TOPICS_BY_CONSUMER):
    """Response body: TopicList."""

    group: str


class QuerySubscriptionByConsumer(Request[Empty], code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER):
    group: str
    topic: str | None = None


# Statistics


class GetConsumeStats(Request[Empty], code=RequestCode.GET_CONSUME_STATS):
    """Response body: ConsumeStats."""

    consumer_group: str
    topic: str | None = None
    # Separated by semicolons.
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
    """Response body: the text of a properties file."""


class UpdateBrokerConfig(Request[Empty], code=RequestCode.UPDATE_BROKER_CONFIG):
    """Request body: the text of a properties file."""


class GetBrokerRuntimeInfo(Request[Empty], code=RequestCode.GET_BROKER_RUNTIME_INFO):
    """Response body: KVTable."""


class CleanExpiredConsumeQueue(Request[Empty], code=RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE):
    pass


class CleanUnusedTopic(Request[Empty], code=RequestCode.CLEAN_UNUSED_TOPIC):
    pass


class DeleteExpiredCommitLog(Request[Empty], code=RequestCode.DELETE_EXPIRED_COMMITLOG):
    pass


class ResumeCheckHalfMessage(Request[Empty], code=RequestCode.RESUME_CHECK_HALF_MESSAGE):
    """Checks a half message again whose checks were exhausted."""

    topic: str | None = None
    msg_id: str | None = None


class FilterServerRegistered(Header):
    broker_name: str
    broker_id: Int64


class RegisterFilterServer(Request[FilterServerRegistered], code=RequestCode.REGISTER_FILTER_SERVER):
    filter_server_addr: str


class RegisterMessageFilterClass(Request[Empty], code=RequestCode.REGISTER_MESSAGE_FILTER_CLASS):
    """Request body: source of a Java class, which a FilterServer of 4.x compiles and runs."""

    consumer_group: str | None = None
    topic: str | None = None
    class_name: str | None = None
