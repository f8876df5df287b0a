"""`mqadmin` commands that create, change and delete topics."""

from pathlib import Path
from typing import TypeVar

from kerolox.cli.admin import java_format
from kerolox.cli.admin.broker_options import master_addresses, require_target
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, required
from kerolox.cli.admin.errors import CommandFailed, InvalidUsage
from kerolox.cli.admin.output import Text
from kerolox.client.resource_names import dlq_topic, retry_topic
from kerolox.errors import ProtocolError, TopicNotFound
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicSysFlag

T = TypeVar("T")

TOPIC = required("t", "topic", "topic name")


def target_flags(text: str, *, is_choice: bool = True) -> tuple[Flag, Flag]:
    """Return the flags -b and -c, for one broker or a whole cluster."""
    return (
        Flag("b", "brokerAddr", f"{text} broker", is_choice=is_choice),
        Flag("c", "clusterName", f"{text} cluster", is_choice=is_choice),
    )


def _check_perm(call: Call) -> None:
    """Refuse permissions with which a topic could not be used; Java accepts any number."""
    perm = call.number("perm", Perm.READ | Perm.WRITE)
    if not 0 <= perm <= Perm.READ | Perm.WRITE | Perm.INHERIT or not perm & (Perm.READ | Perm.WRITE):
        raise InvalidUsage(f"--perm {perm} permits neither reading nor writing: give 2 (write), 4 (read) or 6 (both)")


def _check_queues(call: Call) -> None:
    _check_perm(call)
    for name, what, perm in (("readQueueNums", "reading", 2), ("writeQueueNums", "writing", 4)):
        if call.number(name, 8) < 1:
            hint = f"to stop {what}, use updateTopicPerm -p {perm}"
            raise InvalidUsage(f"--{name} {call[name]}: a topic needs at least one read and one write queue; {hint}")


@command(
    "updateTopic",
    "Update or create topic",
    *target_flags("create topic to which"),
    TOPIC,
    Flag("r", "readQueueNums", "set read queue nums"),
    Flag("w", "writeQueueNums", "set write queue nums"),
    Flag("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
    Flag("o", "order", "set topic's order(true|false)"),
    Flag("u", "unit", "is unit topic (true|false)"),
    Flag("s", "hasUnitSub", "has unit sub (true|false)"),
    newer("a", "attributes", "attribute(+a=b,+c=d,-e)"),
    check=_check_queues,
)
async def update_topic(call: Call) -> Output:
    config = TopicConfig(
        topic_name=call["topic"],
        read_queue_nums=call.number("readQueueNums", 8),
        write_queue_nums=call.number("writeQueueNums", 8),
        perm=call.number("perm", Perm.READ | Perm.WRITE),
        order=call.boolean("order"),
        topic_sys_flag=(TopicSysFlag.UNIT if call.boolean("unit") else 0)
        | (TopicSysFlag.UNIT_SUB if call.boolean("hasUnitSub") else 0),
        attributes=parse_attributes(call.get("attributes")),
    )
    for address in await master_addresses(call):
        await save(call, config, address)
        if config.order and call.has("brokerAddr"):
            yield Text(f"set broker orderConf. isOrder=true, orderConf=[{await _order_conf(call, config)}]")
        yield Text(f"create topic to {address} success.\n", {"broker": address, "topic": config.topic_name})
    if config.order and call.has("clusterName"):
        yield Text(f"set cluster orderConf. isOrder=true, orderConf=[{await _order_conf(call, config)}]")
    yield Text(java_format.topic_config(config))


def parse_attributes(text: str | None) -> dict[str, str] | None:
    """Parse `+a=b,-c` into {"+a": "b", "-c": ""}: plus sets an attribute, minus deletes it."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in filter(None, (it.strip() for it in text.split(","))):
        name, equals, value = part.partition("=")
        if name[:1] not in "+-" or len(name) < 2 or (name[0] == "+") != bool(equals):
            raise InvalidUsage(f"attribute {part!r}: expected +name=value or -name")
        found[name] = value
    return found


async def save(call: Call, config: TopicConfig, address: str) -> None:
    attributes = config.attributes or {}
    await call.admin.topics.create(
        config.topic_name,
        broker=address,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        perm=Perm(config.perm),
        is_ordered=config.order,
        topic_sys_flag=int(config.topic_sys_flag),
        attributes={name.lstrip("+"): value for name, value in attributes.items() if not name.startswith("-")},
    )
    deleted = {name[1:]: None for name in attributes if name.startswith("-")}
    if deleted:
        await call.admin.topics.update(config.topic_name, broker=address, attributes=deleted)


async def _order_conf(call: Call, config: TopicConfig) -> str:
    counts = await call.admin.topics.order(config.topic_name) or {}
    return ";".join(f"{name}:{count}" for name, count in counts.items())


@command(
    "updateTopicList",
    "create or update topic in batch",
    *target_flags("create topic to which"),
    required("f", "filename", "Path to a file with list of org.apache.rocketmq.common.TopicConfig in json format"),
    since="5.3.0",
)
async def update_topic_list(call: Call) -> Output:
    configs = read_list(call, TopicConfig, "topics")
    for address in await master_addresses(call) if configs else ():
        for config in configs:
            await save(call, config, address)
        text = f"submit batch of topic config to {address} success, please check the result later.\n"
        yield Text(text, {"broker": address, "topics": [config.topic_name for config in configs]})


def read_list(call: Call, kind: type[T], what: str) -> list[T]:
    """Return the list in the JSON file of -f; an empty list is an error, except in `mqadmin`: Java prints nothing."""
    file = call["filename"]
    try:
        found: list[T] = fastjson.decode(Path(file).read_bytes(), list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise CommandFailed(f"file {file} cannot be read: {error.strerror}") from None
    except ProtocolError as error:
        raise CommandFailed(f"file {file} is not a JSON list of {what}: {error}") from None
    if not found and not call.is_java:
        raise CommandFailed(f"file {file} contains no {what}")
    return found


@command(
    "deleteTopic",
    "Delete topic from broker and NameServer.",
    TOPIC,
    required("c", "clusterName", "delete topic from which cluster"),
    warning="delete topic {topic} with its messages from cluster {clusterName}",
)
async def delete_topic(call: Call) -> Output:
    # Java reports success for a topic that does not exist.
    if not call.is_java:
        await _check_exists(call, call["topic"])
    async for part in delete_everywhere(call, call["topic"]):
        yield part


async def _check_exists(call: Call, topic: str) -> None:
    """Raise TopicNotFound if neither a NameServer nor a broker has it."""
    try:
        await call.admin.topics.route(topic)
    except TopicNotFound:
        found = [topic in await call.admin.topics.all_configs(address) for address in await master_addresses(call)]
        if not any(found):
            raise


async def delete_everywhere(call: Call, topic: str) -> Output:
    cluster = call["clusterName"]
    await call.admin.topics.delete(topic, cluster=cluster)
    yield Text(f"delete topic [{topic}] from cluster [{cluster}] success.\n", {"deleted": topic, "cluster": cluster})
    yield Text(f"delete topic [{topic}] from NameServer success.\n")


async def delete_group_topics(call: Call, group: str) -> Output:
    """Delete the retry and dead-letter topics of a group."""
    for topic in (retry_topic(group), dlq_topic(group)):
        async for part in delete_everywhere(call, topic):
            yield part


@command(
    "updateTopicPerm",
    "Update topic perm",
    *target_flags("create topic to which", is_choice=False),
    TOPIC,
    required("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]"),
    check=_check_perm,
)
async def update_topic_perm(call: Call) -> Output:
    require_target(call)
    topic, perm = call["topic"], call.number("perm")
    for address in await master_addresses(call):
        # Ask the broker and not a NameServer: with -b the command works without one.
        before = (await call.admin.topics.configs(topic, broker=address))[address]
        if before.perm == perm and call.has("brokerAddr"):
            yield Text("new perm equals to the old one!\n", {"broker": address, "perm": perm})
            return
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=before.read_queue_nums,
            write_queue_nums=before.write_queue_nums,
            topic_sys_flag=before.topic_sys_flag,
            perm=perm,
        )
        await call.admin.topics.update(topic, broker=address, perm=Perm(perm))
        text = f"update topic perm from {before.perm} to {perm} in {address} success.\n"
        yield Text(text, {"broker": address, "perm": perm, "before": before.perm})
        if call.has("brokerAddr"):
            yield Text(f"{java_format.topic_config(config)}.\n")
