"""Requests to Java's NameServer, in order: each case meets the state that its predecessors left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Go's client; the first version that gets strict JSON is 401.
OLD_VERSION = 317
# The last ones whose registration body was a bare topic table.
BARE_BODY_VERSION = 30
DATA_VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1700000000000}
NEXT_DATA_VERSION = {"counter": 4, "stateVersion": 0, "timestamp": 1700000000000}


@dataclass(frozen=True, slots=True)
class Case:
    """A request in terms of Java's classes: `header` and `body` name them; `text` is a body as it stands."""

    name: str
    code: int
    header: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    value: Any = None
    text: str | None = None
    version: int | None = None
    since: str = "4"

    def described(self, opaque: int, serialize: str) -> dict[str, Any]:
        """The line that java/Frames.java reads."""
        line: dict[str, Any] = {
            "code": self.code,
            "opaque": opaque,
            "serialize": serialize,
            "header": self.header,
            "fields": dict(self.fields),
            "extra": dict(self.extra),
            "body": self.body,
            "value": self.value,
        }
        if self.text is not None:
            line["text"] = self.text
        if self.version is not None:
            line["version"] = self.version
        return line


def topic(name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> dict[str, Any]:
    return {
        "topicName": name,
        "readQueueNums": queues,
        "writeQueueNums": queues,
        "perm": perm,
        "topicSysFlag": flag,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
    }


def table(*topics: Mapping[str, Any]) -> dict[str, Any]:
    return {each["topicName"]: each for each in topics}


TOPICS_A = table(
    topic("TopicTest"),
    topic("TBW102", 8, 7),
    topic("Shared", 2),
    topic("Unit", flag=1),
    topic("UnitSub", flag=2),
    topic("UnitBoth", flag=3),
)
FEW = table(topic("TopicTest"), topic("TBW102", 8, 7))


def register(
    name: str,
    broker: str = "broker-a",
    host: str = "10.0.0.5",
    broker_id: int = 0,
    topics: Mapping[str, Any] | None = None,
    version: Mapping[str, int] = DATA_VERSION,
    filters: list[str] | None = None,
    mapping: Mapping[str, Any] | None = None,
    extra: Mapping[str, str] | None = None,
    since: str = "4",
    cluster: str = "DefaultCluster",
    port: int = 10911,
    **fields: Any,
) -> Case:
    header = {
        "brokerName": broker,
        "brokerAddr": f"{host}:{port}",
        "clusterName": cluster,
        "haServerAddr": f"{host}:10912",
        "brokerId": broker_id,
        "compressed": False,
        "bodyCrc32": "right",
        **fields,
    }
    wrapper = {
        "dataVersion": version,
        "topicConfigTable": TOPICS_A if topics is None else topics,
        # Java makes a new one with the time of day unless told.
        "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1700000000000},
        "topicQueueMappingInfoMap": mapping or {},
    }
    return Case(
        name,
        103,
        "RegisterBrokerRequestHeader",
        header,
        extra or {},
        "RegisterBrokerBody",
        {"topicConfigSerializeWrapper": wrapper, "filterServerList": filters or []},
        since=since,
    )


def unregister(
    name: str, broker: str, host: str, broker_id: int = 0, cluster: str = "DefaultCluster", port: int = 10911
) -> Case:
    return Case(name, 104, "UnRegisterBrokerRequestHeader", _broker(broker, host, broker_id, cluster, port))


def query_version(name: str, host: str, value: Mapping[str, int] | None) -> Case:
    fields = _broker("broker-a", host, 0)
    body = "DataVersion" if value else None
    return Case(name, 322, "QueryDataVersionRequestHeader", fields, body=body, value=value)


def _broker(
    broker: str, host: str, broker_id: int, cluster: str = "DefaultCluster", port: int = 10911
) -> dict[str, Any]:
    return {
        "brokerName": broker,
        "brokerAddr": f"{host}:{port}",
        "clusterName": cluster,
        "brokerId": broker_id,
    }


def route(
    name: str,
    topic_name: str,
    version: int | None = None,
    *,
    extra: Mapping[str, str] | None = None,
    since: str = "4",
    **more: bool,
) -> Case:
    fields = {"topic": topic_name, **more}
    return Case(name, 105, "GetRouteInfoRequestHeader", fields, extra or {}, version=version, since=since)


def put(name: str, namespace: str, key: str, value: str) -> Case:
    return Case(name, 100, "PutKVConfigRequestHeader", {"namespace": namespace, "key": key, "value": value})


def get(name: str, namespace: str, key: str) -> Case:
    return Case(name, 101, "GetKVConfigRequestHeader", {"namespace": namespace, "key": key})


def delete(name: str, namespace: str, key: str) -> Case:
    return Case(name, 102, "DeleteKVConfigRequestHeader", {"namespace": namespace, "key": key})


def namespace(name: str, value: str) -> Case:
    return Case(name, 219, "GetKVListByNamespaceRequestHeader", {"namespace": value})


def member_group(name: str, broker: str) -> Case:
    fields = {"clusterName": "DefaultCluster", "brokerName": broker}
    return Case(name, 901, "GetBrokerMemberGroupRequestHeader", fields, since="5")


def register_topic(name: str, topic_name: str, broker: str) -> Case:
    queues = {"brokerName": broker, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0}
    return Case(
        name,
        217,
        "RegisterTopicRequestHeader",
        {"topic": topic_name},
        body="TopicRouteData",
        value={"queueDatas": [queues]},
        since="5",
    )


def delete_topic(name: str, topic_name: str, cluster: str | None) -> Case:
    fields = {"topic": topic_name} | ({"clusterName": cluster} if cluster else {})
    return Case(name, 216, "DeleteTopicFromNamesrvRequestHeader", fields)


def wipe(name: str, broker: str) -> Case:
    return Case(name, 205, "WipeWritePermOfBrokerRequestHeader", {"brokerName": broker})


def unwipe(name: str, broker: str) -> Case:
    return Case(name, 327, "AddWritePermOfBrokerRequestHeader", {"brokerName": broker})


EMPTY_SERVER = [
    Case("unknown-code", 9999),
    route("route-unknown-topic", "TopicTest"),
    Case("cluster-info-empty", 106),
    Case("topic-list-empty", 206),
    Case("system-topics-empty", 304),
    namespace("kv-list-absent", "ORDER_TOPIC_CONFIG"),
    query_version("data-version-unknown-broker", "10.0.0.5", DATA_VERSION),
    member_group("member-group-unknown-broker", "broker-a"),
    wipe("wipe-unknown-broker", "broker-a"),
    unwipe("add-write-unknown-broker", "broker-a"),
    unregister("unregister-unknown-broker", "broker-a", "10.0.0.5"),
]

KV_CONFIG = [
    put("kv-put", "NS", "key-1", "value-1"),
    put("kv-put-second", "NS", "a", "1;2"),
    put("kv-put-not-ascii", "NS", "ключ", "значение €"),
    get("kv-get", "NS", "key-1"),
    get("kv-get-not-ascii", "NS", "ключ"),
    get("kv-get-absent-key", "NS", "nichts-ü"),
    get("kv-get-absent-namespace", "OTHER", "key-1"),
    namespace("kv-list", "NS"),
    delete("kv-delete-not-ascii", "NS", "ключ"),
    delete("kv-delete-absent-namespace", "OTHER", "key-1"),
]

REGISTRATION = [
    register("register-master"),
    register("register-wrong-crc", topics=FEW, bodyCrc32=12345),
    register("register-first-with-one-topic", "broker-b", "10.0.0.8", topics=table(topic("Lonely"))),
    unregister("unregister-master", "broker-b", "10.0.0.8"),
    register(
        "register-slave",
        host="10.0.0.6",
        broker_id=1,
        topics=FEW,
        heartbeatTimeoutMillis=60000,
        enableActingMaster=True,
    ),
    register("register-again", topics=FEW, heartbeatTimeoutMillis=120000, enableActingMaster=False),
    register(
        "register-compressed",
        "broker-c",
        "10.0.0.7",
        topics=table(topic("Shared", 2), topic("OnlyC")),
        compressed=True,
        extra={"__ZONE_NAME": "z1"},
        cluster="OtherCluster",
    ),
    register(
        "register-filter-servers",
        topics=FEW,
        version=NEXT_DATA_VERSION,
        filters=["10.0.0.5:30001", "10.0.0.5:30002"],
    ),
    Case(
        "register-bare-body",
        103,
        "RegisterBrokerRequestHeader",
        {**_broker("broker-old", "10.0.0.9", 0, "OldCluster"), "haServerAddr": "10.0.0.9:10912"},
        body="TopicConfigSerializeWrapper",
        value={"dataVersion": DATA_VERSION, "topicConfigTable": table(topic("OldOne"), topic("OldTwo"))},
        version=BARE_BODY_VERSION,
    ),
    Case(
        "register-without-body",
        103,
        "RegisterBrokerRequestHeader",
        {**_broker("broker-n", "10.0.0.10", 0, "OldCluster"), "haServerAddr": "10.0.0.10:10912"},
    ),
    unregister("unregister-without-body", "broker-n", "10.0.0.10", 0, "OldCluster"),
    register(
        "register-static-topic",
        "broker-s",
        "10.0.0.11",
        topics=table(topic("Static"), topic("NotStatic")),
        version={"counter": 3, "stateVersion": 5, "timestamp": 1700000000000},
        mapping={
            "Static": {
                "topic": "Static",
                "bname": "broker-s",
                "epoch": 1700000000000,
                "totalQueues": 4,
                "dirty": False,
                "currIdMap": {"0": 0, "1": 1, "2": 2, "3": 3},
                "scope": "__global__",
            }
        },
        since="5",
    ),
    register("register-older-state", "broker-s", "10.0.0.12", topics=FEW, since="5"),
    route("route-static-topic", "Static", since="5"),
    route("route-static-topic-old-version", "Static", OLD_VERSION, since="5"),
    unregister("unregister-static", "broker-s", "10.0.0.11"),
]

QUESTIONS = [
    route("route", "TopicTest"),
    route("route-old-version", "TopicTest", OLD_VERSION),
    route("route-old-version-strict", "TopicTest", OLD_VERSION, acceptStandardJsonOnly=True),
    route("route-version-400", "TopicTest", 400),
    route("route-version-401", "TopicTest", 401),
    route("route-two-brokers", "Shared"),
    route("route-zone", "Shared", extra={"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}),
    route("route-other-zone", "Shared", extra={"__ZONE_MODE": "true", "__ZONE_NAME": "z2"}),
    put("kv-put-order", "ORDER_TOPIC_CONFIG", "TopicTest", "broker-a:4"),
    put("kv-put-order-not-ascii", "ORDER_TOPIC_CONFIG", "Unit", "broker-ü:4;€/<\\\"'>"),
    route("route-order", "TopicTest"),
    route("route-order-not-ascii", "Unit"),
    route("route-order-not-ascii-old-version", "Unit", OLD_VERSION),
    register("register-with-order-topics", topics=FEW, version=NEXT_DATA_VERSION),
    register("register-slave-with-order-topics", host="10.0.0.6", broker_id=1, topics=FEW),
    route("route-without-filter-servers", "TopicTest"),
    Case("cluster-info", 106),
    Case("topic-list", 206),
    Case("topics-by-cluster", 224, "GetTopicsByClusterRequestHeader", {"cluster": "DefaultCluster"}),
    Case("topics-by-unknown-cluster", 224, "GetTopicsByClusterRequestHeader", {"cluster": "Nowhere"}),
    Case("system-topics", 304),
    Case("unit-topics", 311),
    Case("unit-sub-topics", 312),
    Case("unit-sub-but-not-unit-topics", 313),
    query_version("data-version-equal", "10.0.0.5", NEXT_DATA_VERSION),
    query_version("data-version-different", "10.0.0.5", DATA_VERSION),
    member_group("member-group", "broker-a"),
    Case(
        "heartbeat",
        904,
        "BrokerHeartbeatRequestHeader",
        {"clusterName": "DefaultCluster", "brokerAddr": "10.0.0.5:10911", "brokerName": "broker-a"},
        since="5",
    ),
    Case(
        "heartbeat-for-a-controller",
        904,
        "BrokerHeartbeatRequestHeader",
        {
            "clusterName": "DefaultCluster",
            "brokerAddr": "10.0.0.5:10911",
            "brokerName": "broker-a",
            "brokerId": 0,
            "epoch": 1,
            "maxOffset": 100,
            "confirmOffset": 90,
            "heartbeatTimeoutMills": 10000,
            "electionPriority": 7,
        },
        since="5",
    ),
]

CHANGES = [
    register_topic("register-topic", "Added", "broker-a"),
    route("route-registered-topic", "Added", since="5"),
    register_topic("register-topic-unknown-broker", "AddedElsewhere", "broker-x"),
    route("route-topic-of-unknown-broker", "AddedElsewhere", since="5"),
    wipe("wipe", "broker-a"),
    route("route-wiped", "TBW102"),
    unwipe("add-write", "broker-a"),
    route("route-write-added", "TBW102"),
    delete_topic("delete-topic-of-cluster", "Shared", "DefaultCluster"),
    route("route-topic-of-other-cluster", "Shared"),
    delete_topic("delete-topic", "Shared", None),
    delete_topic("delete-unknown-topic", "Shared", None),
    route("route-deleted-topic", "Shared"),
    Case("config-update", 318, text="serverWorkerThreads=9\nunknownKey=unknown value\n"),
    Case("config-update-black-listed", 318, text="kvConfigPath=/elsewhere\n"),
    Case("config-update-without-body", 318),
    Case("config", 319),
    unregister("unregister-slave", "broker-a", "10.0.0.6", 1),
    route("route-without-slave", "TopicTest"),
    delete("kv-delete", "NS", "key-1"),
    get("kv-get-deleted", "NS", "key-1"),
]

MALFORMED = {**_broker("broker-m", "10.0.0.13", 0), "haServerAddr": "10.0.0.13:10912"}

FAULTS = [
    Case("put-without-fields", 100),
    Case("put-without-value", 100, "PutKVConfigRequestHeader", {"namespace": "NS", "key": "k"}),
    Case("put-without-key", 100, "PutKVConfigRequestHeader", {"namespace": "NS", "value": "v"}),
    Case("get-without-fields", 101),
    Case("get-without-key", 101, "GetKVConfigRequestHeader", {"namespace": "NS"}),
    Case("delete-without-key", 102, "DeleteKVConfigRequestHeader", {"namespace": "NS"}),
    Case("register-without-fields", 103),
    Case("register-without-name", 103, "RegisterBrokerRequestHeader", {"brokerAddr": "10.0.0.5:10911"}),
    Case("register-with-malformed-id", 103, extra={"brokerId": "zero", "brokerName": "b"}),
    Case("register-with-malformed-body", 103, "RegisterBrokerRequestHeader", MALFORMED, text="{"),
    Case("unregister-without-fields", 104),
    Case("unregister-without-id", 104, "UnRegisterBrokerRequestHeader", {"brokerName": "broker-a"}),
    Case("route-without-fields", 105),
    Case("route-without-topic", 105, "GetRouteInfoRequestHeader", extra={"other": "1"}),
    Case("wipe-without-fields", 205),
    Case("delete-topic-without-fields", 216),
    Case("register-topic-without-body", 217, "RegisterTopicRequestHeader", {"topic": "Added"}, since="5"),
    Case("kv-list-without-fields", 219),
    Case("topics-by-cluster-without-fields", 224),
    Case("data-version-without-fields", 322),
    query_version("data-version-without-body", "10.0.0.5", None),
    Case("add-write-without-fields", 327),
    Case("member-group-without-fields", 901, since="5"),
    Case("heartbeat-without-fields", 904, since="5"),
]

CASES = EMPTY_SERVER + KV_CONFIG + REGISTRATION + QUESTIONS + CHANGES + FAULTS
