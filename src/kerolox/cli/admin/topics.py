"""Topics: made, changed and deleted."""

from pathlib import Path
from typing import TypeVar

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, later, needed
from kerolox.cli.admin.errors import Misused, NotDone
from kerolox.cli.admin.finding import masters
from kerolox.cli.admin.parts import Text
from kerolox.client.names import dlq_topic, retry_topic
from kerolox.errors import ProtocolError, TopicNotFound
from kerolox.runtime import fastjson
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicSysFlag

T = TypeVar("T")

TOPIC = needed("t", "topic", "topic name")


def where(text: str, *, is_choice: bool = True) -> tuple[Flag, Flag]:
    """The flags for one broker or a whole cluster."""
    return (
        Flag("b", "brokerAddr", f"{text} broker", is_choice=is_choice),
        Flag("c", "clusterName", f"{text} cluster", is_choice=is_choice),
    )


def _check_perm(call: Call) -> None:
    """Java takes any number, and has a topic that nobody can use."""
    perm = call.number("perm", Perm.READ | Perm.WRITE)
    if not 0 <= perm <= Perm.READ | Perm.WRITE | Perm.INHERIT or not perm & (Perm.READ | Perm.WRITE):
        raise Misused(f"--perm {perm} would let nobody read or write: give 2 (write), 4 (read) or 6 (both)")


def _check_queues(call: Call) -> None:
    _check_perm(call)
    for name, what, perm in (("readQueueNums", "reading", 2), ("writeQueueNums", "writing", 4)):
        if call.number(name, 8) < 1:
            end = f"updateTopicPerm -p {perm} ends {what}"
            raise Misused(f"--{name} {call[name]}: a topic has at least one queue to each side; {end}")


@command(
    "updateTopic",
    "Update or create topic",
    *where("create topic to which"),
    TOPIC,
    Flag("r", "readQueueNums", "set read queue nums"),
    Flag("w", "writeQueueNums", "set write queue nums"),
    Flag("p", "perm", "set topic's permission(2|4|6), intro[2:W 4:R; 6:RW]"),
    Flag("o", "order", "set topic's order(true|false)"),
    Flag("u", "unit", "is unit topic (true|false)"),
    Flag("s", "hasUnitSub", "has unit sub (true|false)"),
    later("a", "attributes", "attribute(+a=b,+c=d,-e)"),
    check=_check_queues,
)
async def update_topic(call: Call) -> Parts:
    config = TopicConfig(
        topic_name=call["topic"],
        read_queue_nums=call.number("readQueueNums", 8),
        write_queue_nums=call.number("writeQueueNums", 8),
        perm=call.number("perm", Perm.READ | Perm.WRITE),
        order=call.truth("order"),
        topic_sys_flag=(TopicSysFlag.UNIT if call.truth("unit") else 0)
        | (TopicSysFlag.UNIT_SUB if call.truth("hasUnitSub") else 0),
        attributes=parse_attributes(call.get("attributes")),
    )
    for address in await masters(call):
        await save(call, config, address)
        if config.order and call.has("brokerAddr"):
            yield Text(f"set broker orderConf. isOrder=true, orderConf=[{await _order(call, config)}]")
        yield Text(f"create topic to {address} success.\n", {"broker": address, "topic": config.topic_name})
    if config.order and call.has("clusterName"):
        yield Text(f"set cluster orderConf. isOrder=true, orderConf=[{await _order(call, config)}]")
    yield Text(java.topic_config(config))


def parse_attributes(text: str | None) -> dict[str, str] | None:
    """Returns what `+a=b,-c` says: what is to be set, under names with a plus, and what is to go."""
    if text is None:
        return None
    found: dict[str, str] = {}
    for part in filter(None, (it.strip() for it in text.split(","))):
        name, equals, value = part.partition("=")
        if name[:1] not in "+-" or len(name) < 2 or (name[0] == "+") != bool(equals):
            raise Misused(f"attribute {part!r}: expected +name=value, or -name")
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
    leaving = {name[1:]: None for name in attributes if name.startswith("-")}
    if leaving:
        await call.admin.topics.update(config.topic_name, broker=address, attributes=leaving)


async def _order(call: Call, config: TopicConfig) -> str:
    counts = await call.admin.topics.order(config.topic_name) or {}
    return ";".join(f"{name}:{count}" for name, count in counts.items())


@command(
    "updateTopicList",
    "create or update topic in batch",
    *where("create topic to which"),
    needed("f", "filename", "Path to a file with list of org.apache.rocketmq.common.TopicConfig in json format"),
    since="5.3.0",
)
async def update_topic_list(call: Call) -> Parts:
    configs = read_list(call, TopicConfig, "topics")
    for address in await masters(call) if configs else ():
        for config in configs:
            await save(call, config, address)
        text = f"submit batch of topic config to {address} success, please check the result later.\n"
        yield Text(text, {"broker": address, "topics": [config.topic_name for config in configs]})


def read_list(call: Call, kind: type[T], what: str) -> list[T]:
    """Returns what the file lists; of one that lists nothing Java says nothing."""
    file = call["filename"]
    try:
        found: list[T] = fastjson.decode(Path(file).read_bytes(), list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise NotDone(f"file {file} cannot be read: {error.strerror}") from None
    except ProtocolError as error:
        raise NotDone(f"file {file} is no list of {what} in JSON: {error}") from None
    if not found and not call.is_java:
        raise NotDone(f"file {file} lists no {what}")
    return found


@command(
    "deleteTopic",
    "Delete topic from broker and NameServer.",
    TOPIC,
    needed("c", "clusterName", "delete topic from which cluster"),
    warning="delete topic {topic} with its messages from cluster {clusterName}",
)
async def delete_topic(call: Call) -> Parts:
    # Java says that it has deleted what never was there.
    if not call.is_java:
        await _find(call, call["topic"])
    async for part in deleted(call, call["topic"]):
        yield part


async def _find(call: Call, topic: str) -> None:
    """Raises TopicNotFound if neither a NameServer nor a broker has it."""
    try:
        await call.admin.topics.route(topic)
    except TopicNotFound:
        kept = [topic in await call.admin.topics.all_configs(address) for address in await masters(call)]
        if not any(kept):
            raise


async def deleted(call: Call, topic: str) -> Parts:
    cluster = call["clusterName"]
    await call.admin.topics.delete(topic, cluster=cluster)
    yield Text(f"delete topic [{topic}] from cluster [{cluster}] success.\n", {"deleted": topic, "cluster": cluster})
    yield Text(f"delete topic [{topic}] from NameServer success.\n")


async def deleted_with_group(call: Call, group: str) -> Parts:
    """Deletes the topics that a group has for itself."""
    for topic in (retry_topic(group), dlq_topic(group)):
        async for part in deleted(call, topic):
            yield part


@command(
    "updateTopicPerm",
    "Update topic perm",
    *where("create topic to which", is_choice=False),
    TOPIC,
    needed("p", "perm", "set topic's permission(2|4|6), intro[2:W; 4:R; 6:RW]"),
    check=_check_perm,
)
async def update_topic_perm(call: Call) -> Parts:
    if not call.has("brokerAddr") and not call.has("clusterName"):
        raise Misused("give one of -b (--brokerAddr), -c (--clusterName)")
    topic, perm = call["topic"], call.number("perm")
    data = (await call.admin.topics.route(topic)).data
    queues = {queue.broker_name: queue for queue in data.queue_datas}
    names = {address: broker.broker_name for broker in data.broker_datas for address in broker.broker_addrs.values()}
    for address in await masters(call):
        queue = queues.get(names.get(address, ""))
        if queue is None:
            raise NotDone(f"topic {topic!r} has no queues on broker {address}, or it is no master")
        if queue.perm == perm and call.has("brokerAddr"):
            yield Text("new perm equals to the old one!\n", {"broker": address, "perm": perm})
            return
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queue.read_queue_nums,
            write_queue_nums=queue.write_queue_nums,
            topic_sys_flag=queue.topic_sys_flag,
            perm=perm,
        )
        await call.admin.topics.update(topic, broker=address, perm=Perm(perm))
        text = f"update topic perm from {queue.perm} to {perm} in {address} success.\n"
        yield Text(text, {"broker": address, "perm": perm, "before": queue.perm})
        if call.has("brokerAddr"):
            yield Text(f"{java.topic_config(config)}.\n")
