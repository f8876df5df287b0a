"""Consumer groups: made, changed, deleted and looked at."""

import contextlib

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, later, needed
from kerolox.cli.admin.errors import Misused
from kerolox.cli.admin.finding import cluster_of, masters
from kerolox.cli.admin.parts import Text, settings
from kerolox.cli.admin.topics import deleted_with_group, read_list, where
from kerolox.client.names import retry_topic
from kerolox.errors import GroupNotFound, ProtocolError, TopicNotFound
from kerolox.wire.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig


@command(
    "updateSubGroup",
    "Update or create subscription group",
    *where("create subscription group to which", is_choice=False),
    needed("g", "groupName", "consumer group name"),
    Flag("s", "consumeEnable", "consume enable"),
    Flag("m", "consumeFromMinEnable", "from min offset"),
    Flag("d", "consumeBroadcastEnable", "broadcast"),
    Flag("q", "retryQueueNums", "retry queue nums"),
    Flag("r", "retryMaxTimes", "retry max times"),
    Flag("i", "brokerId", "consumer from which broker id"),
    Flag("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
    Flag("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
    later("o", "consumeMessageOrderly", "consume message orderly"),
    later(
        "p",
        "groupRetryPolicy",
        'the json string of retry policy ( exp: {"type":"CUSTOMIZED",'
        '"customizedRetryPolicy":{"next":[1000,5000,10000]}} )',
    ),
)
async def update_sub_group(call: Call) -> Parts:
    config = SubscriptionGroupConfig(
        group_name=call["groupName"],
        consume_enable=call.truth("consumeEnable", True),
        # Of these two Java's tool has other defaults than its brokers.
        consume_from_min_enable=call.truth("consumeFromMinEnable"),
        consume_broadcast_enable=call.truth("consumeBroadcastEnable"),
        retry_queue_nums=call.number("retryQueueNums", 1),
        retry_max_times=call.number("retryMaxTimes", 16),
        broker_id=call.number("brokerId"),
        which_broker_when_consume_slowly=call.number("whichBrokerWhenConsumeSlowly", 1),
        notify_consumer_ids_changed_enable=call.truth("notifyConsumerIdsChanged", True),
        consume_message_orderly=call.truth("consumeMessageOrderly"),
        group_retry_policy=_retry_policy(call.get("groupRetryPolicy")),
    )
    for address in await _masters(call):
        await call.admin.groups.create(config, broker=address)
        text = f"create subscription group to {address} success.\n"
        yield Text(text, {"broker": address, "group": config.group_name})
    # Where a flag of 5.x was given, what it says is to be seen.
    is_later = call.has("consumeMessageOrderly") or call.has("groupRetryPolicy")
    yield Text(java.later_group_config(config) if is_later else java.group_config(config))


def _retry_policy(text: str | None) -> GroupRetryPolicy:
    if text is None:
        return GroupRetryPolicy()
    try:
        return GroupRetryPolicy.decode(text.encode())
    except ProtocolError as error:
        raise Misused(f"--groupRetryPolicy: {error}") from None


async def _masters(call: Call) -> list[str]:
    if not call.has("brokerAddr") and not call.has("clusterName"):
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    return await masters(call)


@command(
    "updateSubGroupList",
    "Update or create subscription group in batch",
    *where("create groups to which"),
    needed(
        "f",
        "filename",
        "Path to a file with a list of org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig "
        "in json format",
    ),
    since="5.3.0",
)
async def update_sub_group_list(call: Call) -> Parts:
    configs = read_list(call, SubscriptionGroupConfig, "groups")
    kind = "group" if call.has("brokerAddr") else "subscription group"
    for address in await masters(call) if configs else ():
        for config in configs:
            await call.admin.groups.create(config, broker=address)
        text = f"submit batch of {kind} config to {address} success, please check the result later.\n"
        yield Text(text, {"broker": address, "groups": [config.group_name for config in configs]})


@command(
    "deleteSubGroup",
    "Delete subscription group from broker.",
    *where("delete subscription group from which", is_choice=False),
    needed("g", "groupName", "subscription group name"),
    Flag("r", "removeOffset", "remove offset"),
    warning="delete group {groupName}, and from a cluster also its retries and dead letters",
)
async def delete_sub_group(call: Call) -> Parts:
    group, cluster = call["groupName"], call.get("clusterName")
    is_of_broker = call.has("brokerAddr")
    # Java says that it has deleted what never was there. Where offsets are to go, they may be all that is left.
    if not call.is_java and not call.truth("removeOffset"):
        await _find(call, group)
    for address in await _masters(call):
        await call.admin.groups.delete(group, broker=address, has_offsets_cleaned=call.truth("removeOffset"))
        of_cluster = "" if is_of_broker else f" in cluster [{cluster}]"
        text = f"delete subscription group [{group}] from broker [{address}]{of_cluster} success.\n"
        yield Text(text, {"deleted": group, "broker": address})
    if not is_of_broker:
        async for part in deleted_with_group(call, group):
            yield part


async def _find(call: Call, group: str) -> None:
    """Raises GroupNotFound if no broker has it, and none has its retries."""
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
    needed("g", "groupName", "subscription group name"),
)
async def get_consumer_config(call: Call) -> Parts:
    info = await call.admin.cluster.info()
    try:
        configs = await call.admin.groups.configs(call["groupName"])
    except GroupNotFound:
        # Java says nothing of a group that nobody knows.
        if call.is_java:
            return
        raise
    for name, config in configs.items():
        members = java.group_members(config) | _of_five(config)
        heading = f"{'=' * 29}{cluster_of(info, name)}:{name}{'=' * 29}\n"
        lines = settings(((key, java.text(value)) for key, value in members.items()), "%-40s=  %s")
        yield Text(heading + lines, {"broker": name, **members})


def _of_five(config: SubscriptionGroupConfig) -> dict[str, object]:
    """Returns what 4.9 does not know, where it is not as in 4.9."""
    known = {
        "consumeMessageOrderly": (config.consume_message_orderly, False),
        "groupSysFlag": (config.group_sys_flag, 0),
        "consumeTimeoutMinute": (config.consume_timeout_minute, 15),
        "attributes": (config.attributes or {}, {}),
        "groupRetryPolicy": (config.group_retry_policy or GroupRetryPolicy(), GroupRetryPolicy()),
    }
    return {name: value for name, (value, default) in known.items() if value != default}


@command(
    "setConsumeMode",
    "Set consume message mode. pull/pop etc.",
    *where("create subscription group to which", is_choice=False),
    needed("t", "topicName", "topic name"),
    needed("g", "groupName", "consumer group name"),
    needed("m", "mode", "consume mode. PULL/POP"),
    Flag("q", "popShareQueueNum", "num of queue which share in pop mode"),
    since="5.0.0",
)
async def set_consume_mode(call: Call) -> Parts:
    topic, group, mode = call["topicName"], call["groupName"], call["mode"]
    if mode not in ("PULL", "POP"):
        raise Misused(f"--mode {mode!r}: PULL and POP are known")
    shared = call.number("popShareQueueNum")
    for address in await _masters(call):
        await call.admin.groups.set_request_mode(
            group, topic, is_popping=mode == "POP", shared_queues=shared, broker=address
        )
        yield Text(f"set consume mode to {address} success.\n", {"broker": address, "group": group, "mode": mode})
    yield Text(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{shared}]")
