"""Queues: the entries by which they find their messages."""

import msgspec

from kerolox.cli.admin import java
from kerolox.cli.admin.declaring import Call, Flag, Parts, command, needed
from kerolox.cli.admin.errors import NotDone
from kerolox.cli.admin.parts import Text
from kerolox.cli.admin.topics import TOPIC
from kerolox.wire.bodies.offsets import QueueEntryData
from kerolox.wire.bodies.queues import MessageQueue

_LINE = "=" * 38 + "\n"


@command(
    "queryCq",
    "Query cq command.",
    TOPIC,
    needed("q", "queue", "queue num, ie. 1"),
    needed("i", "index", "start queue index."),
    Flag("c", "count", "how many."),
    Flag("b", "broker", "broker addr."),
    Flag("g", "consumer", "consumer group."),
)
async def query_cq(call: Call) -> Parts:
    topic, start = call["topic"], call.number("index")
    broker = call.get("broker") or (await call.admin.topics.route(topic)).data.broker_datas[0].broker_name
    queue = MessageQueue(broker, call.number("queue"), topic)
    data = await call.admin.queues.entries(queue, start, call.number("count", 10), group=call.get("consumer"))
    if data is None:
        raise NotDone(f"there is nothing at {start} of {java.queue(queue)}")
    if data.subscription_data is not None:
        yield Text(f"Subscription data: \n{java.pretty(data.subscription_data)}\n{_LINE}")
    if data.filter_data is not None:
        yield Text(f"Filter data: \n{data.filter_data}\n{_LINE}")
    ends = {"max": data.max_queue_index, "min": data.min_queue_index}
    yield Text(f"Queue data: \nmax: {data.max_queue_index}, min: {data.min_queue_index}\n{_LINE}", ends)
    for number, entry in enumerate(data.queue_data or [], start):
        value = {"index": number, **msgspec.to_builtins(entry)}
        yield Text(f"idx: {number}\n{_shown(entry)}\n{_LINE}", value)


def _shown(entry: QueueEntryData) -> str:
    numbers = f"physicOffset={entry.physic_offset}, physicSize={entry.physic_size}, tagsCode={entry.tags_code}"
    return (
        f"ConsumeQueueData{{{numbers}, extendDataJson='{java.text(entry.extend_data_json)}', "
        f"bitMap='{java.text(entry.bit_map)}', eval={java.text(entry.eval)}, msg='{java.text(entry.msg)}'}}"
    )
