"""`mqadmin` commands that show, reset and clone the offsets of consumer groups."""

from kerolox.admin import Progress
from kerolox.admin.offsets import END
from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, required, switch
from kerolox.cli.admin.errors import CommandFailed
from kerolox.cli.admin.java_times import parse_millis, seconds_text
from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.errors import ConsumerNotOnline, KeroloxError
from kerolox.message.client_versions import release_name
from kerolox.wire.bodies.clients import ConsumerConnection
from kerolox.wire.bodies.queues import MessageQueue

_GROUP = required("g", "group", "set the consumer group")
_TOPIC = required("t", "topic", "set the topic")
_FORCE = Flag("f", "force", "set the force rollback by timestamp switch[true|false]")


@command(
    "consumerProgress",
    "Query consumers's progress, speed",
    Flag("g", "groupName", "consumer group name"),
    Flag("s", "showClientIP", "Show Client IP per Queue"),
    newer("t", "topicName", "topic name"),
    is_watchable=True,
)
async def consumer_progress(call: Call) -> Output:
    if not call.has("groupName"):
        yield await _summary(call)
        return
    has_clients = call.boolean("showClientIP")
    progress = await call.admin.offsets.progress(call["groupName"], call.get("topicName"), has_clients=has_clients)
    if not progress.queues:
        raise CommandFailed(f"group {call['groupName']!r} has no offsets: it has consumed nothing yet, or is unknown")
    yield _queues(progress, has_clients=has_clients)
    text = f"\nConsume TPS: {progress.consume_tps:.2f}\nDiff Total: {progress.lag}\n"
    yield Text(text, {"consumeTps": progress.consume_tps, "diffTotal": progress.lag})


def _queues(progress: Progress, *, has_clients: bool) -> Table:
    rows: list[tuple[object, ...]] = []
    for queue, it in sorted(progress.queues.items(), key=lambda pair: queue_sort_key(pair[0])):
        ip = it.client_id.partition("@")[0] if it.client_id else None
        client = (Cell(ip or "N/A", ip),) if has_clients else ()
        names = (Cell(queue.topic[:64], queue.topic), Cell(queue.broker_name[:32], queue.broker_name), queue.queue_id)
        last_time = Cell(seconds_text(it.last_millis), it.last_millis) if it.last_millis else Cell("N/A", None)
        rows.append((*names, it.broker_offset, it.consumer_offset, *client, it.lag, last_time))
    start = ("#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset")
    if has_clients:
        columns = (*start, "#Client IP", "#Diff", "#LastTime")
        return Table("%-64s  %-32s  %-4d  %-20d  %-20d  %-20s %-20d  %s", columns, rows)
    return Table("%-64s  %-32s  %-4d  %-20d  %-20d  %-20d  %s", (*start, "#Diff", "#LastTime"), rows)


def queue_sort_key(queue: MessageQueue) -> tuple[str, str, int]:
    """The order of MessageQueue.compareTo in Java."""
    return queue.topic, queue.broker_name, queue.queue_id


async def _summary(call: Call) -> Table:
    topics = await call.admin.topics.names()
    groups = [topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)]
    columns = ("#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
    layout = "%-64s  %-6d  %-24s %-5s  %-14s  %-7d  %d"
    return Table(layout, columns, [await _group(call, group) for group in groups])


async def _group(call: Call, group: str) -> tuple[object, ...]:
    clients: ConsumerConnection | None
    try:
        progress = await call.admin.offsets.progress(group)
        rates = (int(progress.consume_tps), progress.lag)
    except KeroloxError:
        rates = (0, 0)
    try:
        clients = await call.admin.connections.consumers(group)
    except KeroloxError:
        clients = None
    if clients is None:
        return (Cell(group[:64], group), 0, Cell("OFFLINE", None), Cell("", None), Cell("", None), *rates)
    is_pulling = clients.consume_type == "CONSUME_ACTIVELY"
    oldest = min(client.version for client in clients.connection_set)
    model = clients.message_model if clients.consume_type == "CONSUME_PASSIVELY" else ""
    kind = "PULL" if is_pulling else "PUSH"
    named = Cell(group[:64], group)
    return (
        named,
        len(clients.connection_set),
        release_name(oldest),
        kind,
        Cell(model or "", model or None),
        *rates,
    )


def _target_millis(call: Call) -> int:
    return END if call["timestamp"] == "now" else parse_millis(call["timestamp"], "--timestamp")


@command(
    "resetOffsetByTime",
    "Reset consumer offset by timestamp(without client restart).",
    _GROUP,
    _TOPIC,
    required("s", "timestamp", "set the timestamp[now|currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
    _FORCE,
    switch("c", "cplus", "reset c++ client offset"),
    newer("b", "broker", "broker addr"),
    newer("q", "queue", "queue id"),
    newer("o", "offset", "Expect queue offset, not support old version broker", "5.1.0"),
    warning="reset the offsets of group {group} in topic {topic} to {timestamp}",
    check=_target_millis,
)
async def reset_offset_by_time(call: Call) -> Output:
    group, topic, timestamp = call["group"], call["topic"], call["timestamp"]
    millis = _target_millis(call)
    if call.has("broker") and call.has("queue"):
        async for part in _reset_queue(call, millis):
            yield part
        return
    is_forced = call.boolean("force", True)
    forced = java_format.text(is_forced)
    end = f"topic[{topic}], force[{forced}], timestamp(string)[{timestamp}], timestamp(long)[{millis}]\n"
    start = "rollback consumer offset by specified"
    try:
        found = await call.admin.offsets.reset(
            group, topic, millis, is_forced=is_forced, is_online=True, is_cpp=call.has("cplus")
        )
    except ConsumerNotOnline:
        table = await _roll_back(call, group, topic, millis, is_forced=is_forced)
        yield Text(f"{start} consumerGroup[{group}], {end}")
    else:
        table = _offset_table(found)
        yield Text(f"{start} group[{group}], {end}")
    yield table


async def _reset_queue(call: Call, millis: int) -> Output:
    """Reset the offset of one queue to --offset or, without it, to the time."""
    group, topic, broker = call["group"], call["topic"], call["broker"]
    queue = MessageQueue(broker, call.number("queue"), topic)
    # Unlike for a whole topic, Java prints the current time for `now`.
    printed_millis = call.admin.options.clock.millis() if millis == END else millis
    yield Text(
        f"start reset consumer offset by specified, group[{group}], topic[{topic}], queueId[{queue.queue_id}], "
        f"broker[{broker}], timestamp(string)[{call['timestamp']}], timestamp(long)[{printed_millis}]\n"
    )
    if call.has("offset"):
        offset = call.number("offset")
    else:
        offset = await (
            call.admin.queues.max_offset(queue) if millis == END else call.admin.queues.search(queue, millis)
        )
    await call.admin.offsets.reset_queue(group, queue, offset)
    value = {"group": group, "topic": topic, "queueId": queue.queue_id, "offset": offset}
    yield Text(f"reset consumer offset to {offset}\n", value)


@command(
    "skipAccumulatedMessage",
    "Skip all messages that are accumulated (not consumed) currently",
    _GROUP,
    _TOPIC,
    _FORCE,
    warning="skip all messages of topic {topic} that group {group} has not consumed",
)
async def skip_accumulated_message(call: Call) -> Output:
    group, topic, is_forced = call["group"], call["topic"], call.boolean("force", True)
    try:
        yield _offset_table(await call.admin.offsets.reset(group, topic, END, is_forced=is_forced, is_online=True))
    except ConsumerNotOnline:
        yield await _roll_back(call, group, topic, END, is_forced=is_forced)


def _offset_table(offsets: dict[MessageQueue, int]) -> Table:
    rows = [
        (queue.broker_name[:32], queue.queue_id, offsets[queue]) for queue in java_format.queues_in_hash_order(offsets)
    ]
    return Table("%-40s  %-40d  %-40d", ("#brokerName", "#queueId", "#offset"), rows)


async def _roll_back(call: Call, group: str, topic: str, millis: int, *, is_forced: bool) -> Table:
    """Reset the offsets of a group that is not online, and return the table that Java prints then."""
    done = {it.queue: it for it in await call.admin.offsets.roll_back(group, topic, millis, is_forced=is_forced)}
    rows = [
        (
            queue.broker_name[:32],
            queue.queue_id,
            done[queue].broker_offset,
            done[queue].consumer_offset,
            done[queue].moment_offset,
            done[queue].offset,
        )
        for queue in java_format.queues_in_hash_order(done)
    ]
    columns = (
        *("#brokerName", "#queueId", "#brokerOffset"),
        *("#consumerOffset", "#timestampOffset", "#rollbackOffset"),
    )
    return Table("%-20s  %-20d  %-20d  %-20d  %-20d  %-20d", columns, rows)


@command(
    "cloneGroupOffset",
    "clone offset from other group.",
    required("s", "srcGroup", "set source consumer group"),
    required("d", "destGroup", "set destination consumer group"),
    _TOPIC,
    Flag("o", "offline", "the group or the topic is offline"),
    warning="set the offsets of group {destGroup} in topic {topic} to those of group {srcGroup}",
)
async def clone_group_offset(call: Call) -> Output:
    source, target, topic = call["srcGroup"], call["destGroup"], call["topic"]
    await call.admin.offsets.clone(source, target, topic)
    text = f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
    yield Text(text, {"srcGroup": source, "destGroup": target, "topic": topic})
