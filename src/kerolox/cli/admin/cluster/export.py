"""`exportMetadata` and `exportConfigs`: write topics, groups and settings of a cluster to JSON files."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import addresses_by_broker, master_addresses, require_target
from kerolox.cli.admin.command import Call, Flag, Output, command, required, switch
from kerolox.cli.admin.errors import CommandFailed
from kerolox.cli.admin.output import Text
from kerolox.cli.private_files import private_directory, write_file
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from kerolox.wire.bodies.topics import TopicConfig

DEFAULT_DIRECTORY = "/tmp/rocketmq/export"  # noqa: S108
_GROUP_TOPIC_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
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
CLUSTER = required("c", "clusterName", "choose a cluster to export")


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
async def export_metadata(call: Call) -> Output:
    if call.has("brokerAddr"):
        if call.has("topic"):
            document: dict[str, Any] = {
                "dataVersion": _version((await call.admin.topics.table(call["brokerAddr"])).data_version),
                "topicConfigTable": await _topics(call, call["brokerAddr"]),
            }
            yield await write_document(call, "topic.json", document)
        elif call.has("subscriptionGroup"):
            document = {
                "dataVersion": _version((await call.admin.groups.table(call["brokerAddr"])).data_version),
                "subscriptionGroupTable": await exported_groups(call, call["brokerAddr"]),
            }
            yield await write_document(call, "subscriptionGroup.json", document)
        return
    require_target(call)
    topics: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for address in await master_addresses(call):
        _merge(topics, await _topics(call, address), ("readQueueNums", "writeQueueNums"))
        _merge(groups, await exported_groups(call, address), ("retryQueueNums",))
    tables = {
        "topicConfigTable": java_format.in_hash_order(topics),
        "subscriptionGroupTable": java_format.in_hash_order(groups),
    }
    if call.has("topic"):
        name, document = "topic.json", {"topicConfigTable": tables["topicConfigTable"]}
    elif call.has("subscriptionGroup"):
        name, document = "subscriptionGroup.json", {"subscriptionGroupTable": tables["subscriptionGroupTable"]}
    else:
        name, document = "metadata.json", tables
    document = {"exportTime": call.admin.options.clock.millis(), **document}
    yield await write_document(call, name, document, end="\n")


def _version(version: msgspec.Struct) -> dict[str, Any]:
    """Leave out stateVersion, which 4.9 does not have, if it is 0."""
    return {name: value for name, value in msgspec.to_builtins(version).items() if value or name != "stateVersion"}


def _merge(merged: dict[str, Any], table: dict[str, Any], summed: tuple[str, ...]) -> None:
    """Add a broker's table; for topics and groups on several brokers, the `summed` fields are added up."""
    for name, config in table.items():
        for field in summed if name in merged else ():
            config[field] += merged[name][field]
        merged[name] = config


async def _topics(call: Call, address: str) -> dict[str, Any]:
    system = set(await call.admin.topics.system_names())
    found = await call.admin.topics.all_configs(address)
    return {
        name: _members(config, {"attributes": {}})
        for name, config in found.items()
        if name not in system and (call.has("specialTopic") or not name.startswith(_GROUP_TOPIC_PREFIXES))
    }


async def exported_groups(call: Call, address: str) -> dict[str, Any]:
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
    """Return the fields in alphabetical order, without those that are null or have the default of 5.x."""
    values = msgspec.to_builtins(config)
    return {
        name: value for name, value in sorted(values.items()) if value is not None and defaults.get(name, ...) != value
    }


async def write_document(call: Call, name: str, document: dict[str, Any], *, end: str = "") -> Text:
    directory = call.get("filePath")
    path = f"{directory or DEFAULT_DIRECTORY}/{name}"
    try:
        await asyncio.to_thread(_write, Path(path), java_format.pretty_json(document), is_default=directory is None)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}; give another directory with -f") from error
    return Text(f"export {path} success{end}", {"file": path})


def _write(path: Path, text: str, *, is_default: bool) -> None:
    if is_default:
        # It is below /tmp, where another user could have planted links.
        private_directory(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.encode(errors="backslashreplace"), mode=0o666)


@command(
    "exportConfigs",
    "export configs",
    CLUSTER,
    Flag("f", "filePath", "export configs.json path | default /tmp/rocketmq/export"),
)
async def export_configs(call: Call) -> Output:
    brokers: dict[str, dict[str, str]] = {}
    slaves = 0
    for master, *others in await addresses_by_broker(call, call["clusterName"]):
        values = await call.admin.configuration.broker(master)
        exported = {name: values[name] for name in _CONFIGS if name in values}
        brokers[values.get("brokerName", master)] = java_format.in_hash_order(exported)
        slaves += len(others)
    scale = {
        "namesrvSize": len(call.admin.options.name_servers),
        "masterBrokerSize": len(brokers),
        "slaveBrokerSize": slaves,
    }
    document = {"brokerConfigs": java_format.in_hash_order(brokers), "clusterScale": java_format.in_hash_order(scale)}
    yield await write_document(call, "configs.json", java_format.in_hash_order(document))
