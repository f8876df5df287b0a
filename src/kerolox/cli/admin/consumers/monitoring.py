"""`startMonitoring`: reports the lag of each group and problems of its clients every minute (MonitorService)."""

from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Output, command, pause
from kerolox.cli.admin.consumers.running_info import has_equal_subscriptions, stuck_queues
from kerolox.cli.admin.output import Text
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.queues import MessageQueue

FIRST_SECONDS = 20.0
ROUND_SECONDS = 60.0
_EVENTS = "OFFSET_MOVED_EVENT"
_LINE = "=" * 41


class _OffsetMoved(Body, kw_only=True):
    """The message that a 4.x broker stores when a consumer pulls from an offset that was deleted."""

    consumer_group: str | None = None
    message_queue: MessageQueue | None = None
    offset_request: int = 0
    offset_new: int = 0


@command("startMonitoring", "Start Monitoring")
async def start_monitoring(call: Call) -> Output:
    """Run until it is interrupted. Java writes its reports to a log, this prints them."""
    since = call.admin.options.clock.millis()
    await pause(FIRST_SECONDS)
    while True:
        started = call.admin.options.clock.millis()
        yield Text(f"[MONITOR] {_LINE}beginRound\n")
        async for part in offset_moved_events(call, since):
            yield part
        for topic in await call.admin.topics.names():
            if topic.startswith(RETRY_PREFIX):
                async for part in _group(call, topic.removeprefix(RETRY_PREFIX)):
                    yield part
        yield Text(f"[MONITOR] {_LINE}endRound\n")
        since = started
        taken = (call.admin.options.clock.millis() - started) / 1000
        await pause(max(ROUND_SECONDS - taken, 0.0))


async def offset_moved_events(call: Call, since: int, topic: str = _EVENTS) -> Output:
    """Report consumers that pulled from offsets that were deleted."""
    try:
        async for message in call.admin.messages.read_topic(topic, begin=since):
            if message.stored_millis < since:
                continue
            event = fastjson.decode(message.body, _OffsetMoved)
            event_text = java_format.to_string(
                "OffsetMovedEvent",
                (
                    ("consumerGroup", event.consumer_group),
                    ("messageQueue", None if event.message_queue is None else java_format.queue(event.message_queue)),
                    ("offsetRequest", event.offset_request),
                    ("offsetNew", event.offset_new),
                ),
            )
            report = java_format.to_string(
                "DeleteMsgsEvent", (("offsetMovedEvent", event_text), ("eventTimestamp", message.stored_millis))
            )
            yield Text(f"[MONITOR] reportDeleteMsgsEvent: {report}\n", {"deleted": event_text})
    except TopicNotFound:
        return


async def _group(call: Call, group: str) -> Output:
    try:
        progress = await call.admin.offsets.progress(group)
        # Fails for a group that is not online, about which Java reports nothing.
        infos = await call.admin.connections.running_infos(group)
    except KeroloxError:
        return
    now = call.admin.options.clock.millis()
    for topic in java_format.in_hash_order(progress.by_topic):
        queues = {queue: it for queue, it in progress.queues.items() if queue.topic == topic}
        lags = [max(it.lag, 0) for it in queues.values()]
        delays = [await _delay(call, queue, it.last_millis) for queue, it in queues.items() if it.last_millis > 0]
        values = {
            "consumerGroup": group,
            "topic": topic,
            "undoneMsgsTotal": sum(lags),
            "undoneMsgsSingleMQ": max(lags, default=0),
            "undoneMsgsDelayTimeMills": max(delays, default=0),
        }
        yield Text(f"[MONITOR] reportUndoneMsgs: {java_format.to_string('UndoneMsgs', values.items())}\n", values)
    start = f"[MONITOR]  [NOTIFY] reportConsumerRunningInfo: ConsumerGroup: {group}, "
    if infos and not has_equal_subscriptions(infos, now):
        yield Text(f"{start}Subscription different\n", {"consumerGroup": group, "problem": "Subscription different"})
    for client_id, info in sorted(infos.items()):
        stuck = stuck_queues(client_id, info, now)
        if stuck:
            yield Text(f"{start}ClientId: {client_id}, {stuck}\n", {"consumerGroup": group, "problem": stuck})


async def _delay(call: Call, queue: MessageQueue, last_millis: int) -> int:
    """Return by how many milliseconds the last message of a queue is newer than the last consumed one."""
    try:
        end = await call.admin.queues.max_offset(queue)
        found = (await call.admin.messages.pull(queue, end - 1, count=1)).messages if end else []
    except KeroloxError:
        return 0
    return max(found[0].stored_millis - last_millis, 0) if found else 0
