"""`mqadmin` commands that send messages, and that measure how long sending takes."""

import contextlib
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, pause, required
from kerolox.cli.admin.errors import CommandFailed, InvalidUsage
from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.admin.topics.topics import TOPIC
from kerolox.client import Message, Producer, SendHook, Tracing
from kerolox.errors import KeroloxError
from kerolox.message.records.record import BODY_SIZE_MAX
from kerolox.wire.bodies.queues import MessageQueue

_AMOUNT = Flag("a", "amount", "message amount | default 100")
_SIZE = Flag("s", "size", "message size | default 128 Byte")


@command(
    "sendMessage",
    "Send a message",
    required("t", "topic", "Topic name"),
    required("p", "body", "UTF-8 string format of the message body"),
    Flag("k", "key", "Message keys"),
    Flag("c", "tags", "Message tags"),
    Flag("b", "broker", "Send message to target broker"),
    Flag("i", "qid", "Send message to target queue"),
    Flag("m", "msgTraceEnable", "Message Trace Enable, Default: false"),
)
async def send_message(call: Call) -> Output:
    broker, queue = call.get("broker"), None
    if call.has("qid"):
        if broker is None:
            raise InvalidUsage("Broker name must be set if the queue is chosen!")
        queue = MessageQueue(broker, call.number("qid"), call["topic"])
    keys = (call.get("key") or "").split()
    message = Message(call["topic"], call["body"].encode(), tag=call.get("tags"), keys=keys)
    async with contextlib.AsyncExitStack() as stack:
        hooks = []
        if call.boolean("msgTraceEnable"):
            hooks.append(await stack.enter_async_context(Tracing(options=call.admin.options)))
        producer = await stack.enter_async_context(_producer(call, hooks=hooks))
        result = await producer.send(message, queue=queue)
    row = (result.queue.broker_name, result.queue.queue_id, result.status.value, result.message_id)
    yield Table("%-32s  %-4s  %-20s    %s", ("#Broker Name", "#QID", "#Send Result", "#MsgId"), [row])


def _producer(call: Call, group: str | None = None, *, hooks: Sequence[SendHook] = ()) -> Producer:
    return Producer(group or str(call.admin.options.clock.millis()), options=call.admin.options, hooks=hooks)


@command(
    "sendMsgStatus",
    "send msg to broker.",
    required("b", "brokerName", "Broker Name"),
    Flag("s", "messageSize", "Message Size, Default: 128"),
    Flag("c", "count", "send message count, Default: 50"),
)
async def send_msg_status(call: Call) -> Output:
    """Send to the topic that every broker has under its own name."""
    topic = call["brokerName"]
    async with _producer(call, "PID_SMSC") as producer:
        await producer.send(Message(topic, _hello(16)))
        for _ in range(call.number("count", 50)):
            begin = call.admin.options.clock.monotonic()
            result = await producer.send(Message(topic, _hello(_size(call, "messageSize"))))
            taken = _millis_since(call, begin)
            value = {"rt": taken, "msgId": result.message_id, "offsetMsgId": result.offset_id}
            yield Text(f"rt={taken}ms, SendResult={java_format.send_result(result)}\n", value)


def _size(call: Call, name: str) -> int:
    size = call.number(name, 128)
    if not 0 < size <= BODY_SIZE_MAX:
        raise InvalidUsage(f"--{name} {size}: expected 1 to {BODY_SIZE_MAX} bytes")
    return size


def _hello(size: int) -> bytes:
    return b"hello jodie" * -(-size // 11)


def _millis_since(call: Call, begin: float) -> int:
    return int((call.admin.options.clock.monotonic() - begin) * 1000)


@command("checkMsgSendRT", "check message send response time", TOPIC, _AMOUNT, _SIZE)
async def check_msg_send_rt(call: Call) -> Output:
    topic, amount = call["topic"], call.number("amount", 100)
    message = Message(topic, b"a" * _size(call, "size"))
    rows: list[tuple[object, ...]] = []
    times: list[int] = []
    async with _producer(call) as producer:
        queues = (await call.admin.topics.route(topic)).write_queues
        if not queues:
            raise CommandFailed(f"topic {topic!r} has no writable queue")
        for queue in itertools.islice(itertools.cycle(queues), amount):
            begin = call.admin.options.clock.monotonic()
            try:
                await producer.send(message, queue=queue)
                is_sent = True
            except KeroloxError:
                is_sent = False
            times.append(_millis_since(call, begin))
            rows.append((queue.broker_name, queue.queue_id, Cell(java_format.text(is_sent), is_sent), times[-1]))
    yield Table("%-32s  %-4s  %-20s    %s", ("#Broker Name", "#QID", "#Send Result", "#RT"), rows)
    average = _average(times)
    yield Text(f"Avg RT: {average:.2f}\n", {"averageRt": average})


def _average(times: list[int]) -> float:
    """Return the average without the first, which includes connecting."""
    return sum(times[1:]) / (len(times) - 1) if len(times) > 1 else float("nan")


@command(
    "clusterRT",
    "List All clusters Message Send RT",
    _AMOUNT,
    _SIZE,
    Flag("c", "cluster", "cluster name | default display all cluster"),
    Flag("p", "print log", "print as tlog | default false"),
    Flag("m", "machine room", "machine room name | default noname"),
    Flag("i", "interval", "print interval | default 10 seconds"),
)
async def cluster_rt(call: Call) -> Output:
    """Run until it is interrupted."""
    is_log = call.boolean("print-log")
    info = await call.admin.cluster.info()
    clusters = [call["cluster"]] if call.has("cluster") else list(java_format.in_hash_order(info.cluster_addr_table))
    layout = "%-24s  %-24s  %-8s  %-16s  %-16s"
    if not is_log:
        columns = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        yield Table(layout, columns, [], heading="%-24s  %-24s  %-4s  %-8s  %-8s")
    async with _producer(call) as producer:
        while True:
            for cluster in clusters:
                if cluster not in info.cluster_addr_table:
                    raise CommandFailed(f"cluster [{cluster}] not exist")
                for broker in info.cluster_addr_table[cluster]:
                    average, sent, failed = await _measure(call, producer, broker)
                    value = {"cluster": cluster, "broker": broker, "rt": average, "sent": sent, "failed": failed}
                    text = layout % (cluster, broker, f"{average:.2f}", sent, failed)
                    if is_log:
                        room = call.get("machine-room") or "noname"
                        text = f"{_china_time()}|{room}|{cluster}|{broker}|{average:.0f}"
                    yield Text(f"{text}\n", value)
            await pause(call.number("interval", 10))


async def _measure(call: Call, producer: Producer, broker: str) -> tuple[float, int, int]:
    """Return the average time of a send in milliseconds, and how many succeeded and failed."""
    message = Message(broker, b"a" * _size(call, "size"))
    times: list[int] = []
    sent = 0
    for _ in range(call.number("amount", 100)):
        begin = call.admin.options.clock.monotonic()
        try:
            await producer.send(message)
            sent += 1
        except KeroloxError:
            pass
        times.append(_millis_since(call, begin))
    return _average(times), sent, len(times) - sent


def _china_time() -> str:
    """Return the current time in China: alone among Java's tools, clusterRT prints that."""
    return f"{datetime.now(UTC) + timedelta(hours=8):%Y-%m-%d %H:%M:%S}"
