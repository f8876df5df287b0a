"""`mqadmin` commands that create, change, delete and show consumer groups."""

import contextlib

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import cluster_of, master_addresses, require_target
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, required
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.output import Text, key_value_lines
from kerolox.cli.admin.topics.topics import delete_group_topics, read_list, target_flags
from kerolox.client.resource_names import retry_topic
from kerolox.errors import GroupNotFound, ProtocolError, TopicNotFound
from kerolox.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig


@command(
    "updateSubGroup",
    "Update or create subscription group",
    *target_flags("create subscription group to which", is_choice=False),
    required("g", "groupName", "consumer group name"),
    Flag("s", "consumeEnable", "consume enable"),
    Flag("m", "consumeFromMinEnable", "from min offset"),
    Flag("d", "consumeBroadcastEnable", "broadcast"),
    Flag("q", "retryQueueNums", "retry queue nums"),
    Flag("r", "retryMaxTimes", "retry max times"),
    Flag("i", "brokerId", "consumer from which broker id"),
    Flag("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
    Flag("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
    newer("o", "consumeMessageOrderly", "consume message orderly"),
    newer(
        "p",
        "groupRetryPolicy",
        'the json string of retry policy ( exp: {"type":"CUSTOMIZED",'
        '"customizedRetryPolicy":{"next":[1000,5000,10000]}} )',
    ),
)
async def update_sub_group(call: Call) -> Output:
    config = SubscriptionGroupConfig(
        group_name=call["groupName"],
        consume_enable=call.boolean("consumeEnable", True),
        # Like in Java, the defaults of the tool for these two differ from those of a broker.
        consume_from_min_enable=call.boolean("consumeFromMinEnable"),
        consume_broadcast_enable=call.boolean("consumeBroadcastEnable"),
        retry_queue_nums=call.number("retryQueueNums", 1),
        retry_max_times=call.number("retryMaxTimes", 16),
        broker_id=call.number("brokerId"),
        which_broker_when_consume_slowly=call.number("whichBrokerWhenConsumeSlowly", 1),
        notify_consumer_ids_changed_enable=call.boolean("notifyConsumerIdsChanged", True),
        consume_message_orderly=call.boolean("consumeMessageOrderly"),
        group_retry_policy=_retry_policy(call.get("groupRetryPolicy")),
    )
    for address in await _master_addresses(call):
        await call.admin.groups.create(config, broker=address)
        text = f"create subscription group to {address} success.\n"
        yield Text(text, {"broker": address, "group": config.group_name})
    # The text of 4.9.8 does not have the fields of 5.x: print that of 5.x if one of them was given.
    has_5x_flag = call.has("consumeMessageOrderly") or call.has("groupRetryPolicy")
    yield Text(java_format.group_config_5x(config) if has_5x_flag else java_format.group_config(config))


def _retry_policy(text: str | None) -> GroupRetryPolicy:
    if text is None:
        return GroupRetryPolicy()
    try:
        return GroupRetryPolicy.decode(text.encode())
    except ProtocolError as error:
        raise InvalidUsage(f"--groupRetryPolicy: {error}") from None


async def _master_addresses(call: Call) -> list[str]:
    require_target(call)
    return await master_addresses(call)


@command(
    "updateSubGroupList",
    "Update or create subscription group in batch",
    *target_flags("create groups to which"),
    required(
        "f",
        "filename",
        "Path to a file with a list of org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig "
        "in json format",
    ),
    since="5.3.0",
)
async def update_sub_group_list(call: Call) -> Output:
    configs = read_list(call, SubscriptionGroupConfig, "groups")
    kind = "group" if call.has("brokerAddr") else "subscription group"
    for address in await master_addresses(call) if configs else ():
        for config in configs:
            await call.admin.groups.create(config, broker=address)
        text = f"submit batch of {kind} config to {address} success, please check the result later.\n"
        yield Text(text, {"broker": address, "groups": [config.group_name for config in configs]})


@command(
    "deleteSubGroup",
    "Delete subscription group from broker.",
    *target_flags("delete subscription group from which", is_choice=False),
    required("g", "groupName", "subscription group name"),
    Flag("r", "removeOffset", "remove offset"),
    warning="delete group {groupName} and, with -c, its retry and dead-letter topics",
)
async def delete_sub_group(call: Call) -> Output:
    group, cluster = call["groupName"], call.get("clusterName")
    has_broker_flag = call.has("brokerAddr")
    # Java reports success for a group that does not exist. With --removeOffset it need not exist: offsets may remain.
    if not call.is_java and not call.boolean("removeOffset"):
        await _check_exists(call, group)
    for address in await _master_addresses(call):
        await call.admin.groups.delete(group, broker=address, has_offsets_cleaned=call.boolean("removeOffset"))
        of_cluster = "" if has_broker_flag else f" in cluster [{cluster}]"
        text = f"delete subscription group [{group}] from broker [{address}]{of_cluster} success.\n"
        yield Text(text, {"deleted": group, "broker": address})
    if not has_broker_flag:
        async for part in delete_group_topics(call, group):
            yield part


async def _check_exists(call: Call, group: str) -> None:
    """Raise GroupNotFound if the broker of -b does not have it; without -b, if no broker has it or its retry topic."""
    broker = call.get("brokerAddr")
    if broker is not None:
        if group not in await call.admin.groups.all_configs(broker):
            raise GroupNotFound(f"broker {broker} has no group {group!r}")
        return
    try:
        await call.admin.groups.configs(group)
    except GroupNotFound:
        with contextlib.suppress(TopicNotFound):
            await call.admin.topics.route(retry_topic(group))
            return
        raise


@command(
    "getConsumerConfig",
    "Get consumer config by subscription group name!",
    required("g", "groupName", "subscription group name"),
)
async def get_consumer_config(call: Call) -> Output:
    info = await call.admin.cluster.info()
    try:
        configs = await call.admin.groups.configs(call["groupName"])
    except GroupNotFound:
        # Java prints nothing for an unknown group.
        if call.is_java:
            return
        raise
    for name, config in configs.items():
        fields = java_format.group_fields(config) | _fields_of_5x(config)
        heading = f"{'=' * 29}{cluster_of(info, name)}:{name}{'=' * 29}\n"
        lines = key_value_lines(((key, java_format.text(value)) for key, value in fields.items()), "%-40s=  %s")
        yield Text(heading + lines, {"broker": name, **fields})


def _fields_of_5x(config: SubscriptionGroupConfig) -> dict[str, object]:
    """Return the fields that 4.9 does not have, unless they have their default."""
    fields = {
        "consumeMessageOrderly": (config.consume_message_orderly, False),
        "groupSysFlag": (config.group_sys_flag, 0),
        "consumeTimeoutMinute": (config.consume_timeout_minute, 15),
        "attributes": (config.attributes or {}, {}),
        "groupRetryPolicy": (config.group_retry_policy or GroupRetryPolicy(), GroupRetryPolicy()),
    }
    return {name: value for name, (value, default) in fields.items() if value != default}


@command(
    "setConsumeMode",
    "Set consume message mode. pull/pop etc.",
    *target_flags("create subscription group to which", is_choice=False),
    required("t", "topicName", "topic name"),
    required("g", "groupName", "consumer group name"),
    required("m", "mode", "consume mode. PULL/POP"),
    Flag("q", "popShareQueueNum", "num of queue which share in pop mode"),
    since="5.0.0",
)
async def set_consume_mode(call: Call) -> Output:
    topic, group, mode = call["topicName"], call["groupName"], call["mode"]
    if mode not in ("PULL", "POP"):
        raise InvalidUsage(f"--mode {mode!r}: expected PULL or POP")
    shared = call.number("popShareQueueNum")
    for address in await _master_addresses(call):
        await call.admin.groups.set_request_mode(
            group, topic, is_popping=mode == "POP", shared_queues=shared, broker=address
        )
        yield Text(f"set consume mode to {address} success.\n", {"broker": address, "group": group, "mode": mode})
    yield Text(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{shared}]")
