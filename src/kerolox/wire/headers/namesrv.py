"""Requests to a NameServer, and its notifications to brokers. Fields are in the order in which Java writes them."""

from kerolox.codes import RequestCode
from kerolox.wire.header import Empty, Header, Request, named
from kerolox.wire.integers import Int32, Int64

# Key-value configuration


class PutKVConfig(Request[Empty], code=RequestCode.PUT_KV_CONFIG):
    namespace: str
    value: str
    key: str


class KVConfigFound(Header):
    value: str | None = None


class GetKVConfig(Request[KVConfigFound], code=RequestCode.GET_KV_CONFIG):
    namespace: str
    key: str


class DeleteKVConfig(Request[Empty], code=RequestCode.DELETE_KV_CONFIG):
    namespace: str
    key: str


class GetKVListByNamespace(Request[Empty], code=RequestCode.GET_KVLIST_BY_NAMESPACE):
    """Response body: KVTable."""

    namespace: str


# Brokers


class BrokerRegistered(Header):
    """Both fields are set only for a slave whose master is registered."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBroker(Request[BrokerRegistered], code=RequestCode.REGISTER_BROKER, kw_only=True):
    """Request body: RegisterBrokerBody. Response body: KVTable of order topics, if there are any."""

    heartbeat_timeout_millis: Int64 | None = None
    broker_id: Int64
    body_crc32: Int32 = 0
    cluster_name: str
    broker_addr: str
    # None: the broker is older than 5.0 and does not support acting masters.
    enable_acting_master: bool | None = None
    ha_server_addr: str
    compressed: bool = False
    broker_name: str
    zone_name: str | None = named("__ZONE_NAME", default=None)


class UnregisterBroker(Request[Empty], code=RequestCode.UNREGISTER_BROKER):
    broker_id: Int64
    cluster_name: str
    broker_addr: str
    broker_name: str


class BrokerHeartbeat(Request[Empty], code=RequestCode.BROKER_HEARTBEAT, kw_only=True):
    """To NameServers and controllers. Only controllers read the numbers, and need the broker id."""

    broker_id: Int64 | None = None
    # The smaller one is preferred in an election between brokers that hold the same.
    election_priority: Int32 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    cluster_name: str
    broker_addr: str
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    broker_name: str | None = None


class DataVersionCompared(Header):
    changed: bool


class QueryDataVersion(Request[DataVersionCompared], code=RequestCode.QUERY_DATA_VERSION):
    """Request body: DataVersion. Response body: the NameServer's DataVersion. Counts as a heartbeat."""

    broker_id: Int64
    cluster_name: str
    broker_addr: str
    broker_name: str


class GetBrokerMemberGroup(Request[Empty], code=RequestCode.GET_BROKER_MEMBER_GROUP):
    """Response body: BrokerMemberGroupBody."""

    cluster_name: str
    broker_name: str


class NotifyMinBrokerIdChange(Request[Empty], code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE):
    """Oneway from the NameServer to the brokers of a group: its lowest live broker id has changed."""

    ha_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    min_broker_addr: str | None = None
    min_broker_id: Int64 | None = None


# Routes and clusters


class GetRouteInfoByTopic(Request[Empty], code=RequestCode.GET_ROUTEINFO_BY_TOPIC):
    """Response body: TopicRouteData."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: bool | None = named("__ZONE_MODE", default=None)
    zone_name: str | None = named("__ZONE_NAME", default=None)


class GetBrokerClusterInfo(Request[Empty], code=RequestCode.GET_BROKER_CLUSTER_INFO):
    """Response body: ClusterInfo."""


class WritePermWiped(Header):
    wipe_topic_count: Int32


class WipeWritePermOfBroker(Request[WritePermWiped], code=RequestCode.WIPE_WRITE_PERM_OF_BROKER):
    broker_name: str


class WritePermAdded(Header):
    add_topic_count: Int32


class AddWritePermOfBroker(Request[WritePermAdded], code=RequestCode.ADD_WRITE_PERM_OF_BROKER):
    broker_name: str


# Topics. The response body of each list request is a TopicList.


class GetAllTopicListFromNameserver(Request[Empty], code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER):
    pass


class GetTopicsByCluster(Request[Empty], code=RequestCode.GET_TOPICS_BY_CLUSTER):
    cluster: str


class GetSystemTopicListFromNs(Request[Empty], code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS):
    pass


class GetUnitTopicList(Request[Empty], code=RequestCode.GET_UNIT_TOPIC_LIST):
    pass


class GetHasUnitSubTopicList(Request[Empty], code=RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST):
    pass


class GetHasUnitSubUnunitTopicList(Request[Empty], code=RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST):
    pass


class DeleteTopicInNamesrv(Request[Empty], code=RequestCode.DELETE_TOPIC_IN_NAMESRV, kw_only=True):
    cluster_name: str | None = None
    topic: str


class RegisterTopicInNamesrv(Request[Empty], code=RequestCode.REGISTER_TOPIC_IN_NAMESRV):
    """Request body: TopicRouteData, of which only the queues are used."""

    topic: str


# The NameServer's own configuration


class UpdateNamesrvConfig(Request[Empty], code=RequestCode.UPDATE_NAMESRV_CONFIG):
    """Request body: the text of a properties file."""


class GetNamesrvConfig(Request[Empty], code=RequestCode.GET_NAMESRV_CONFIG):
    """Response body: the text of a properties file."""
