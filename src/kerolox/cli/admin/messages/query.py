"""`mqadmin` commands that find messages by id, key, offset and trace, and push or resend them."""

import asyncio
import contextlib
from typing import Any, TypedDict

from kerolox.admin import MessageNotFound
from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, newer, required, switch
from kerolox.cli.admin.errors import CommandFailed, InvalidUsage
from kerolox.cli.admin.java_times import seconds_text
from kerolox.cli.admin.messages.message_text import details, json_value, write_body
from kerolox.cli.admin.output import Cell, Table, Text
from kerolox.cli.admin.topics.topics import TOPIC
from kerolox.client import Message, Producer
from kerolox.client.messages import Received
from kerolox.client.tracing.trace_format import TRACE_TOPIC, Pub, SubAfter, decode
from kerolox.errors import KeroloxError
from kerolox.message import property_names
from kerolox.message.errors import IdError
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import INDEX_KEY, INDEX_TAG

_GROUP = Flag("g", "consumerGroup", "consumer group name")
_CLIENT = Flag("d", "clientId", "The consumer's client id")
_LONG_MAX = 2**63 - 1
_HOUR_MILLIS = 3_600_000


@command(
    "queryMsgById",
    "Query Message by Id",
    required("i", "msgId", "Message Id"),
    _GROUP,
    _CLIENT,
    Flag("s", "sendMessage", "resend message"),
    Flag("u", "unitName", "unit name"),
    newer("t", "topic", "topic name"),
)
async def query_msg_by_id(call: Call) -> Output:
    for message_id in filter(None, (part.strip() for part in call["msgId"].split(","))):
        try:
            message = await call.admin.messages.by_id(message_id, call.get("topic"))
        except IdError:
            raise MessageNotFound(
                f"{message_id!r} is not an offset message id; to find a message by the id of its producer, use "
                "queryMsgByUniqueKey"
            ) from None
        if call.has("consumerGroup") and call.has("clientId"):
            yield await _push(call, message)
        elif call.has("sendMessage"):
            if call.boolean("sendMessage"):
                yield await _resend(call, message_id, message)
        else:
            async for part in show_message(call, message, has_offset_id=True):
                yield part


async def _push(call: Call, message: Received) -> Text:
    """Have the client of -d consume the message now."""
    result = await call.admin.messages.consume_directly(call["consumerGroup"], call["clientId"], message)
    value = {"consumeResult": result.consume_result, "spentTimeMills": result.spent_time_mills, "remark": result.remark}
    return Text(java_format.direct_result(result), value)


async def _resend(call: Call, message_id: str, message: Received) -> Text:
    copy = Message(
        message.record.topic,
        message.body,
        tag=message.tag,
        keys=message.keys,
        properties={name: value for name, value in message.properties.items() if name not in property_names.RESERVED},
        flag=message.flag,
        message_id=message.message_id,
    )
    async with Producer("ReSendMsgById", options=call.admin.options) as producer:
        result = await producer.send(copy)
    text = f"prepare resend msg. originalMsgId={message_id}{java_format.send_result(result)}"
    return Text(text, {"originalMsgId": message_id, "msgId": result.message_id, "offsetMsgId": result.offset_id})


@command(
    "queryMsgByUniqueKey",
    "Query Message by Unique key",
    required("i", "msgId", "Message Id"),
    _GROUP,
    _CLIENT,
    required("t", "topic", "The topic of msg"),
    switch("a", "showAll", "Print all message, the limit is 32"),
)
async def query_msg_by_unique_key(call: Call) -> Output:
    message_id, topic = call["msgId"], call["topic"]
    if call.has("consumerGroup") and call.has("clientId"):
        yield await _push(call, await call.admin.messages.by_id(message_id, topic))
        return
    found = await call.admin.messages.by_unique_key(topic, message_id)
    if not found:
        raise MessageNotFound(f"no broker of topic {topic!r} has a message with the id {message_id}")
    for number, message in enumerate(found if call.has("showAll") else found[:1]):
        async for part in show_message(call, message, has_offset_id=False, number=number):
            yield part


async def show_message(
    call: Call, message: Received, *, has_offset_id: bool, number: int = 0, **extra: object
) -> Output:
    """Yield all fields of a message, and its consume state in each group; `extra` are properties to add."""
    path = await asyncio.to_thread(write_body, message, number)
    tracks = []
    with contextlib.suppress(KeroloxError):
        tracks = await call.admin.tracks.of_message(message)
    value = json_value(message) | {"tracks": {track.group: track.type.value for track in tracks}}
    consumed = "".join(map(java_format.track, tracks)) or "WARN: No Consumer"
    text = details(message, path, has_offset_id=has_offset_id, extra={name: str(it) for name, it in extra.items()})
    yield Text(f"{text}\n\n{consumed}", value)


@command(
    "queryMsgByOffset",
    "Query Message by offset",
    TOPIC,
    required("b", "brokerName", "Broker Name"),
    required("i", "queueId", "Queue Id"),
    required("o", "offset", "Queue Offset"),
)
async def query_msg_by_offset(call: Call) -> Output:
    queue = MessageQueue(call["brokerName"], call.number("queueId"), call["topic"])
    pulled = await call.admin.messages.pull(queue, call.number("offset"), count=1)
    if not pulled.messages:
        raise MessageNotFound(f"no message at offset {call['offset']} of {java_format.queue(queue)}")
    ends = {"MIN_OFFSET": pulled.min_offset, "MAX_OFFSET": pulled.max_offset}
    async for part in show_message(call, pulled.messages[0], has_offset_id=True, **ends):
        yield part


_BEGIN = newer("b", "beginTimestamp", "Begin timestamp(ms). default:0, eg:1676730526212")
_END = newer("e", "endTimestamp", "End timestamp(ms). default:Long.MAX_VALUE, eg:1676730526212")
_COUNT = "The maximum number of messages returned by the query, default:64"


def _check_key_type(call: Call) -> None:
    if call.get("keyType") not in (None, INDEX_KEY, INDEX_TAG):
        raise InvalidUsage(f"--keyType {call['keyType']!r}: give K for keys or T for tags")


class _Range(TypedDict):
    begin: int
    end: int
    count_max: int


@command(
    "queryMsgByKey",
    "Query Message by Key",
    TOPIC,
    required("k", "msgKey", "Message Key"),
    _BEGIN,
    _END,
    newer("m", "maxNum", _COUNT),
    newer("c", "cluster", "Cluster name or lmq parent topic, lmq is used to find the route."),
    newer("p", "keyType", "Index key type, default index key type is K, you can use K for keys OR T for tags", "5.5.0"),
    newer("l", "lastKey", "Last Key", "5.5.0"),
    check=_check_key_type,
)
async def query_msg_by_key(call: Call) -> Output:
    topic, key, kind = call["topic"], call["msgKey"], call.get("keyType") or INDEX_KEY
    search = call.admin.messages.by_tag if kind == INDEX_TAG else call.admin.messages.by_key
    found = await search(topic, key, **_range(call), cluster=call.get("cluster"), last_key=call.get("lastKey"))
    if not found:
        named = "tag" if kind == INDEX_TAG else "key"
        raise MessageNotFound(f"no message of topic {topic!r} has the {named} {key!r}")
    rows = [(it.message_id, it.record.queue_id, it.queue_offset) for it in found]
    if call.has("keyType") or call.has("lastKey"):
        # 5.5 adds a column, whose values -l accepts; without these flags the columns are those of 4.9.8.
        keyed = [(*row, _index_key(it, kind, key)) for row, it in zip(rows, found, strict=True)]
        yield Table("%-50s %4d %40d %-200s", ("#Message ID", "#QID", "#Offset", "#IndexKey"), keyed)
    else:
        yield Table("%-50s %4d %40d", ("#Message ID", "#QID", "#Offset"), rows)


def _index_key(message: Received, kind: str, key: str) -> str:
    """Return the key of a message in a RocksDB index, which begins with the hour of its store time."""
    hour = message.stored_millis // _HOUR_MILLIS * _HOUR_MILLIS
    record = message.record
    return f"{hour}@{record.topic}@{kind}@{key}@{message.message_id}@{record.physical_offset}"


def _range(call: Call) -> _Range:
    begin, end = call.millis("beginTimestamp"), call.millis("endTimestamp")
    return {
        "begin": 0 if begin is None else begin,
        "end": _LONG_MAX if end is None else end,
        "count_max": call.number("maxNum", 64),
    }


@command(
    "queryMsgTraceById",
    "query a message trace",
    required("i", "msgId", "Message Id"),
    Flag("t", "traceTopic", "The name value of message trace topic"),
    _BEGIN,
    _END,
    newer("c", "maxNum", _COUNT),
    alias="QueryMsgTraceById",
)
async def query_msg_trace_by_id(call: Call) -> Output:
    message_id = call["msgId"]
    carriers = await call.admin.messages.by_key(call.get("traceTopic") or TRACE_TOPIC, message_id, **_range(call))
    if not carriers:
        raise CommandFailed(f"no trace of message {message_id}: its clients do not trace, or have not sent it yet")
    rows: dict[str, list[tuple[object, ...]]] = {}
    for carrier in carriers:
        host = carrier.born_host.rpartition(":")[0]
        for record in decode(carrier.body.decode("utf-8", "replace")):
            if record.message_id != message_id:
                continue
            if isinstance(record, Pub):
                yield _trace_table("ProducerGroup", "SendTime", [_row("Pub", host, record)])
                yield Text("\n")
            elif isinstance(record, SubAfter):
                rows.setdefault(record.group or "", []).append(_row("Sub", host, record))
    for group in java_format.in_hash_order(rows):
        yield _trace_table("ConsumerGroup", "ConsumerTime", rows[group])
        yield Text("\n")


def _row(kind: str, host: str, record: Any) -> tuple[object, ...]:
    cost = Cell(f"{record.cost_millis}ms", record.cost_millis)
    time = Cell(seconds_text(record.timestamp), record.timestamp)
    return (kind, record.group, host, time, cost, "success" if record.is_success else "failed")


def _trace_table(group: str, time: str, rows: list[tuple[object, ...]]) -> Table:
    columns = ("#Type", f"#{group}", "#ClientHost", f"#{time}", "#CostTimes", "#Status")
    return Table("%-10s %-20s %-20s %-20s %-10s %-10s", columns, rows)
