"""Topics, groups, settings and rates of a cluster, written to files as JSON."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, needed, switch
from kerolox.cli.admin.errors import Misused, NotDone
from kerolox.cli.admin.finding import masters, members_of
from kerolox.cli.admin.parts import Text
from kerolox.client.names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from kerolox.wire.bodies.topics import TopicConfig

DEFAULT_DIRECTORY = "/tmp/rocketmq/export"  # noqa: S108
_GROUPS_OWN = (RETRY_PREFIX, DLQ_PREFIX)
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = frozenset(
    {
        *("DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER"),
        *("CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY"),
        *("CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL", "CID_SYS_RMQ_TRANS"),
    }
)
_CONFIGS = (
    *("brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "filterServerNums"),
    *("flushDiskType", "maxMessageSize", "messageDelayLevel", "msgTraceTopicName", "slaveReadEnable", "traceOn"),
    *("traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
)
CLUSTER = needed("c", "clusterName", "choose a cluster to export")


@command(
    "exportMetadata",
    "export metadata",
    Flag("c", "clusterName", "choose a cluster to export"),
    Flag("b", "brokerAddr", "choose a broker to export"),
    Flag("f", "filePath", "export metadata.json path | default /tmp/rocketmq/export"),
    switch("t", "topic", "only export topic metadata"),
    switch("g", "subscriptionGroup", "only export subscriptionGroup metadata"),
    switch("s", "specialTopic", "need retryTopic and dlqTopic"),
)
async def export_metadata(call: Call) -> Parts:
    if call.has("brokerAddr"):
        if call.has("topic"):
            document: dict[str, Any] = {
                "dataVersion": _version((await call.admin.topics.table(call["brokerAddr"])).data_version),
                "topicConfigTable": await _topics(call, call["brokerAddr"]),
            }
            yield await written(call, "topic.json", document)
        elif call.has("subscriptionGroup"):
            document = {
                "dataVersion": _version((await call.admin.groups.table(call["brokerAddr"])).data_version),
                "subscriptionGroupTable": await groups_of(call, call["brokerAddr"]),
            }
            yield await written(call, "subscriptionGroup.json", document)
        return
    if not call.has("clusterName"):
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    topics: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for address in await masters(call):
        _add(topics, await _topics(call, address), ("readQueueNums", "writeQueueNums"))
        _add(groups, await groups_of(call, address), ("retryQueueNums",))
    tables = {"topicConfigTable": java.in_hash_order(topics), "subscriptionGroupTable": java.in_hash_order(groups)}
    if call.has("topic"):
        name, document = "topic.json", {"topicConfigTable": tables["topicConfigTable"]}
    elif call.has("subscriptionGroup"):
        name, document = "subscriptionGroup.json", {"subscriptionGroupTable": tables["subscriptionGroupTable"]}
    else:
        name, document = "metadata.json", tables
    document = {"exportTime": call.admin.options.clock.millis(), **document}
    yield await written(call, name, document, end="\n")


def _version(version: msgspec.Struct) -> dict[str, Any]:
    """The member that 5.x added is there if it says something."""
    return {name: value for name, value in msgspec.to_builtins(version).items() if value or name != "stateVersion"}


def _add(whole: dict[str, Any], table: dict[str, Any], summed: tuple[str, ...]) -> None:
    """Of what several brokers have, the numbers of queues are added."""
    for name, config in table.items():
        for member in summed if name in whole else ():
            config[member] += whole[name][member]
        whole[name] = config


async def _topics(call: Call, address: str) -> dict[str, Any]:
    system = set(await call.admin.topics.system_names())
    found = await call.admin.topics.all_configs(address)
    return {
        name: _members(config, {"attributes": {}})
        for name, config in found.items()
        if name not in system and (call.has("specialTopic") or not name.startswith(_GROUPS_OWN))
    }


async def groups_of(call: Call, address: str) -> dict[str, Any]:
    found = await call.admin.groups.all_configs(address)
    defaults = {
        "attributes": {},
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupRetryPolicy": msgspec.to_builtins(GroupRetryPolicy()),
        "groupSysFlag": 0,
    }
    return {
        name: _members(config, defaults)
        for name, config in found.items()
        if name not in SYSTEM_GROUPS and not name.startswith(_SYSTEM_GROUP_PREFIX)
    }


def _members(config: TopicConfig | SubscriptionGroupConfig, defaults: dict[str, Any]) -> dict[str, Any]:
    """Returns the members that 4.9 knows, and those of 5.x that say something."""
    values = msgspec.to_builtins(config)
    return {
        name: value for name, value in sorted(values.items()) if value is not None and defaults.get(name, ...) != value
    }


async def written(call: Call, name: str, document: dict[str, Any], *, end: str = "") -> Text:
    path = f"{call.get('filePath') or DEFAULT_DIRECTORY}/{name}"
    try:
        await asyncio.to_thread(_write, Path(path), java.pretty(document))
    except OSError as error:
        raise NotDone(f"{path} cannot be written: {error.strerror}; give another directory with -f") from error
    return Text(f"export {path} success{end}", {"file": path})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@command(
    "exportConfigs",
    "export configs",
    CLUSTER,
    Flag("f", "filePath", "export configs.json path | default /tmp/rocketmq/export"),
)
async def export_configs(call: Call) -> Parts:
    brokers: dict[str, dict[str, str]] = {}
    slaves = 0
    for master, *others in await members_of(call, call["clusterName"]):
        values = await call.admin.configuration.broker(master)
        kept = {name: values[name] for name in _CONFIGS if name in values}
        brokers[values.get("brokerName", master)] = java.in_hash_order(kept)
        slaves += len(others)
    scale = {
        "namesrvSize": len(call.admin.options.name_servers),
        "masterBrokerSize": len(brokers),
        "slaveBrokerSize": slaves,
    }
    document = {"brokerConfigs": java.in_hash_order(brokers), "clusterScale": java.in_hash_order(scale)}
    yield await written(call, "configs.json", java.in_hash_order(document))
