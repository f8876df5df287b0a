"""`printMsg`, `printMsgByQueue` and `consumeMessage`: read queues from one offset to another."""

from collections import Counter

from kerolox.admin.messages import Pulled, PullStatus
from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, required
from kerolox.cli.admin.errors import InvalidUsage
from kerolox.cli.admin.messages.message_text import json_value, line
from kerolox.cli.admin.output import Text
from kerolox.cli.admin.topics.topics import TOPIC
from kerolox.client.messages import Received
from kerolox.wire.bodies.queues import MessageQueue

_CHARSET = Flag("c", "charsetName ", "CharsetName(eg: UTF-8,GBK)")
_EXPRESSION = Flag("s", "subExpression ", "Subscribe Expression(eg: TagA || TagB)")
_BEGIN = Flag("b", "beginTimestamp ", "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]")
_END = Flag("e", "endTimestamp ", "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]")
_COUNT_MAX = 32


@command(
    "printMsg",
    "Print Message Detail",
    TOPIC,
    _CHARSET,
    _EXPRESSION,
    _BEGIN,
    _END,
    Flag("d", "printBody ", "print body"),
)
async def print_msg(call: Call) -> Output:
    has_bodies = call.boolean("printBody", True)
    for queue in java_format.queues_in_hash_order((await call.admin.topics.route(call["topic"])).read_queues):
        offset, end = await _offset_range(call, queue)
        yield Text(f"minOffset={offset}, maxOffset={end}, {java_format.queue(queue)}\n")
        while offset < end:
            pulled = await call.admin.messages.pull(queue, offset, expression=call.get("subExpression") or "*")
            offset = pulled.next_offset
            if pulled.status is PullStatus.FOUND:
                for message in _matching(call, pulled):
                    yield _message_part(call, message, pulled, has_body=has_bodies)
                continue
            outcome = "no matched msg" if pulled.status is PullStatus.NO_MATCHED_MSG else "print msg finished"
            yield Text(f"{java_format.queue(queue)} {outcome}. status={pulled.status.value}, offset={offset}\n")
            if pulled.status is not PullStatus.NO_MATCHED_MSG:
                break
        yield Text("-" * 56 + "\n")


async def _offset_range(call: Call, queue: MessageQueue) -> tuple[int, int]:
    """Return the offsets to read from and to: those of the whole queue, or of the given times."""
    begin, end = call.millis("beginTimestamp"), call.millis("endTimestamp")
    queues = call.admin.queues
    return (
        await queues.min_offset(queue) if begin is None else await queues.search(queue, begin),
        await queues.max_offset(queue) if end is None else await queues.search(queue, end),
    )


def _matching(call: Call, pulled: Pulled) -> list[Received]:
    """Return the messages whose tags match: brokers compare only hash codes of tags."""
    tags = {tag.strip() for tag in (call.get("subExpression") or "*").split("||")} - {"*", ""}
    return [message for message in pulled.messages if not tags or message.tag in tags]


def _message_part(call: Call, message: Received, pulled: Pulled, *, has_body: bool) -> Text:
    body = "NOT PRINT BODY"
    if has_body:
        try:
            body = message.body.decode(call.get("charsetName") or "UTF-8", "replace")
        except LookupError:
            raise InvalidUsage(f"--charsetName {call['charsetName']!r} is not a known charset") from None
    return Text(line(message, pulled.min_offset, pulled.max_offset, body), json_value(message))


@command(
    "printMsgByQueue",
    "Print Message Detail",
    TOPIC,
    required("a", "brokerName ", "broker name"),
    required("i", "queueId ", "queue id"),
    _CHARSET,
    _EXPRESSION,
    _BEGIN,
    _END,
    Flag("p", "print msg", "print msg. eg: true | false(default)"),
    Flag("d", "printBody ", "print body. eg: true | false(default)"),
    Flag("f", "calculate", "calculate by tag. eg: true | false(default)"),
)
async def print_msg_by_queue(call: Call) -> Output:
    queue = MessageQueue(call["brokerName"], call.number("queueId"), call["topic"])
    offset, end = await _offset_range(call, queue)
    tags: Counter[str] = Counter()
    while offset < end:
        pulled = await call.admin.messages.pull(queue, offset, expression=call.get("subExpression") or "*")
        offset = pulled.next_offset
        if pulled.status is not PullStatus.FOUND:
            break
        for message in _matching(call, pulled):
            tags.update([message.tag] if message.tag else [])
            if call.boolean("print-msg"):
                yield _message_part(call, message, pulled, has_body=call.boolean("printBody"))
    if call.boolean("calculate"):
        for tag, count in tags.most_common():
            yield Text(f"Tag: {tag:<30} Count: {count}\n", {"tag": tag, "count": count})


@command(
    "consumeMessage",
    "Consume message",
    required("t", "topic", "Topic name"),
    Flag("b", "brokerName", "Broker name"),
    Flag("i", "queueId", "Queue Id"),
    Flag("o", "offset", "Queue offset"),
    Flag("g", "consumerGroup", "Consumer group name"),
    Flag("s", "beginTimestamp ", "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
    Flag("e", "endTimestamp ", "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"),
    Flag("c", "MessageNumber", "Number of message to be consumed"),
)
async def consume_message(call: Call) -> Output:
    """Read only: no offset is committed."""
    count = call.number("MessageNumber", 128)
    _check_arguments(call, count)
    if call.has("queueId"):
        queue = MessageQueue(call["brokerName"], call.number("queueId"), call["topic"])
        low, high = await _offset_range(call, queue)
        offset = call.number("offset")
        if offset > high:
            yield Text(f"{java_format.queue(queue)} no matched msg, offset={offset}\n")
            return
        low = max(low, offset)
        if high - low > count:
            yield Text(f"The oldler {count} message will be provided\n")
            high = low + count - 1
        async for part in _read(call, queue, low, high):
            yield part
        return
    for queue in java_format.queues_in_hash_order((await call.admin.topics.route(call["topic"])).read_queues):
        if count <= 0:
            return
        low, high = await _offset_range(call, queue)
        if high - low > count:
            yield Text(f"The older {count} message of the {queue.queue_id} queue will be provided\n")
            high, count = low + count - 1, 0
        else:
            count -= high - low + 1
        async for part in _read(call, queue, low, high):
            yield part


def _check_arguments(call: Call, count: int) -> None:
    now = call.admin.options.clock.millis()
    begin, end = call.millis("beginTimestamp"), call.millis("endTimestamp")
    problems = (
        (count <= 0, "Please input a positive messageNumber!"),
        (call.has("queueId") and not call.has("brokerName"), "Please set the brokerName before queueId!"),
        (call.has("offset") and not call.has("queueId"), "Please set queueId before offset!"),
        ((begin or 0) > now, "Please set the beginTimestamp before now!"),
        ((end or 0) > now, "Please set the endTimestamp before now!"),
        (
            end is not None and (begin or 0) > end,
            "Please make sure that the beginTimestamp is less than or equal to the endTimestamp",
        ),
    )
    for is_wrong, text in problems:
        if is_wrong:
            raise InvalidUsage(text)


async def _read(call: Call, queue: MessageQueue, offset: int, last: int) -> Output:
    while offset <= last:
        pulled = await call.admin.messages.pull(queue, offset, count=min(last - offset + 1, _COUNT_MAX))
        offset = pulled.next_offset
        if pulled.status is PullStatus.FOUND:
            yield Text("Consume ok\n")
            for message in pulled.messages:
                yield _message_part(call, message, pulled, has_body=True)
            continue
        outcome = "no matched msg" if pulled.status is PullStatus.NO_MATCHED_MSG else "print msg finished"
        yield Text(f"{java_format.queue(queue)} {outcome}. status={pulled.status.value}, offset={offset}\n")
        if pulled.status is not PullStatus.NO_MATCHED_MSG:
            return
