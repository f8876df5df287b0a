"""Messages: found by id, key, place and trace, and handed to a consumer."""

import asyncio
import contextlib
from typing import Any

from kerolox.admin import MessageNotFound
from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, later, needed, switch
from kerolox.cli.admin.errors import NotDone
from kerolox.cli.admin.parts import Cell, Table, Text
from kerolox.cli.admin.shown import details, json_value, write_body
from kerolox.cli.admin.times import seconds_text
from kerolox.cli.admin.topics import TOPIC
from kerolox.client import Message, Producer
from kerolox.client.messages import Received
from kerolox.client.trace import TRACE_TOPIC, Pub, SubAfter, decode
from kerolox.errors import KeroloxError
from kerolox.message import names
from kerolox.message.errors import IdError
from kerolox.wire.bodies.queues import MessageQueue

_GROUP = Flag("g", "consumerGroup", "consumer group name")
_CLIENT = Flag("d", "clientId", "The consumer's client id")
_LONG_MAX = 2**63 - 1


@command(
    "queryMsgById",
    "Query Message by Id",
    needed("i", "msgId", "Message Id"),
    _GROUP,
    _CLIENT,
    Flag("s", "sendMessage", "resend message"),
    Flag("u", "unitName", "unit name"),
    later("t", "topic", "topic name"),
)
async def query_msg_by_id(call: Call) -> Parts:
    for message_id in filter(None, (part.strip() for part in call["msgId"].split(","))):
        try:
            message = await call.admin.messages.by_id(message_id, call.get("topic"))
        except IdError:
            raise MessageNotFound(
                f"{message_id!r} is no id that says where a message lies; by its producer's id it is found with "
                "queryMsgByUniqueKey"
            ) from None
        if call.has("consumerGroup") and call.has("clientId"):
            yield await _pushed(call, message)
        elif call.has("sendMessage"):
            if call.truth("sendMessage"):
                yield await _sent_again(call, message_id, message)
        else:
            async for part in shown(call, message, has_place=True):
                yield part


async def _pushed(call: Call, message: Received) -> Text:
    result = await call.admin.messages.consume_directly(call["consumerGroup"], call["clientId"], message)
    value = {"consumeResult": result.consume_result, "spentTimeMills": result.spent_time_mills, "remark": result.remark}
    return Text(java.direct_result(result), value)


async def _sent_again(call: Call, message_id: str, message: Received) -> Text:
    again = Message(
        message.record.topic,
        message.body,
        tag=message.tag,
        keys=message.keys,
        properties={name: value for name, value in message.properties.items() if name not in names.RESERVED},
        flag=message.flag,
        message_id=message.message_id,
    )
    async with Producer("ReSendMsgById", options=call.admin.options) as producer:
        result = await producer.send(again)
    text = f"prepare resend msg. originalMsgId={message_id}{java.send_result(result)}"
    return Text(text, {"originalMsgId": message_id, "msgId": result.message_id, "offsetMsgId": result.offset_id})


@command(
    "queryMsgByUniqueKey",
    "Query Message by Unique key",
    needed("i", "msgId", "Message Id"),
    _GROUP,
    _CLIENT,
    needed("t", "topic", "The topic of msg"),
    switch("a", "showAll", "Print all message, the limit is 32"),
)
async def query_msg_by_unique_key(call: Call) -> Parts:
    message_id, topic = call["msgId"], call["topic"]
    if call.has("consumerGroup") and call.has("clientId"):
        yield await _pushed(call, await call.admin.messages.by_id(message_id, topic))
        return
    found = await call.admin.messages.by_unique_key(topic, message_id)
    if not found:
        raise MessageNotFound(f"no broker of topic {topic!r} has a message of id {message_id}")
    for number, message in enumerate(found if call.has("showAll") else found[:1]):
        async for part in shown(call, message, has_place=False, number=number):
            yield part


async def shown(call: Call, message: Received, *, has_place: bool, number: int = 0, **extra: object) -> Parts:
    """A message with all that is known of it, and what became of it in each group."""
    path = await asyncio.to_thread(write_body, message, number)
    tracks = []
    with contextlib.suppress(KeroloxError):
        tracks = await call.admin.tracks.of_message(message)
    value = json_value(message) | {"tracks": {track.group: track.type.value for track in tracks}}
    became = "".join(map(java.track, tracks)) or "WARN: No Consumer"
    text = details(message, path, has_place=has_place, extra={name: str(it) for name, it in extra.items()})
    yield Text(f"{text}\n\n{became}", value)


@command(
    "queryMsgByOffset",
    "Query Message by offset",
    TOPIC,
    needed("b", "brokerName", "Broker Name"),
    needed("i", "queueId", "Queue Id"),
    needed("o", "offset", "Queue Offset"),
)
async def query_msg_by_offset(call: Call) -> Parts:
    queue = MessageQueue(call["brokerName"], call.number("queueId"), call["topic"])
    pulled = await call.admin.messages.pull(queue, call.number("offset"), count=1)
    if not pulled.messages:
        raise MessageNotFound(f"there is no message at {call['offset']} of {java.queue(queue)}")
    ends = {"MIN_OFFSET": pulled.min_offset, "MAX_OFFSET": pulled.max_offset}
    async for part in shown(call, pulled.messages[0], has_place=True, **ends):
        yield part


_BEGIN = later("b", "beginTimestamp", "Begin timestamp(ms). default:0, eg:1676730526212")
_END = later("e", "endTimestamp", "End timestamp(ms). default:Long.MAX_VALUE, eg:1676730526212")
_COUNT = "The maximum number of messages returned by the query, default:64"


@command(
    "queryMsgByKey",
    "Query Message by Key",
    TOPIC,
    needed("k", "msgKey", "Message Key"),
    _BEGIN,
    _END,
    later("m", "maxNum", _COUNT),
)
async def query_msg_by_key(call: Call) -> Parts:
    found = await _with_key(call, call["topic"], call["msgKey"])
    if not found:
        raise MessageNotFound(f"no message of topic {call['topic']!r} has the key {call['msgKey']!r}")
    rows = [(it.message_id, it.record.queue_id, it.queue_offset) for it in found]
    yield Table("%-50s %4d %40d", ("#Message ID", "#QID", "#Offset"), rows)


async def _with_key(call: Call, topic: str, key: str) -> list[Received]:
    begin, end = call.millis("beginTimestamp"), call.millis("endTimestamp")
    return await call.admin.messages.by_key(
        topic,
        key,
        begin=0 if begin is None else begin,
        end=_LONG_MAX if end is None else end,
        count_max=call.number("maxNum", 64),
    )


@command(
    "queryMsgTraceById",
    "query a message trace",
    needed("i", "msgId", "Message Id"),
    Flag("t", "traceTopic", "The name value of message trace topic"),
    _BEGIN,
    _END,
    later("c", "maxNum", _COUNT),
    alias="QueryMsgTraceById",
)
async def query_msg_trace_by_id(call: Call) -> Parts:
    message_id = call["msgId"]
    carriers = await _with_key(call, call.get("traceTopic") or TRACE_TOPIC, message_id)
    if not carriers:
        raise NotDone(f"nobody has told anything of message {message_id}: its clients do not trace, or not yet")
    rows: dict[str, list[tuple[object, ...]]] = {}
    for carrier in carriers:
        host = carrier.born_host.rpartition(":")[0]
        for record in decode(carrier.body.decode("utf-8", "replace")):
            if record.message_id != message_id:
                continue
            if isinstance(record, Pub):
                yield _traced("ProducerGroup", "SendTime", [_row("Pub", host, record)])
                yield Text("\n")
            elif isinstance(record, SubAfter):
                rows.setdefault(record.group or "", []).append(_row("Sub", host, record))
    for group in java.in_hash_order(rows):
        yield _traced("ConsumerGroup", "ConsumerTime", rows[group])
        yield Text("\n")


def _row(kind: str, host: str, record: Any) -> tuple[object, ...]:
    cost = Cell(f"{record.cost_millis}ms", record.cost_millis)
    moment = Cell(seconds_text(record.timestamp), record.timestamp)
    return (kind, record.group, host, moment, cost, "success" if record.is_success else "failed")


def _traced(group: str, time: str, rows: list[tuple[object, ...]]) -> Table:
    columns = ("#Type", f"#{group}", "#ClientHost", f"#{time}", "#CostTimes", "#Status")
    return Table("%-10s %-20s %-20s %-20s %-10s %-10s", columns, rows)
