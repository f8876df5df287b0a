"""`queryCq`: prints the entries of a consume queue."""

import msgspec

from kerolox.cli.admin import java_format
from kerolox.cli.admin.command import Call, Flag, Output, command, required
from kerolox.cli.admin.errors import CommandFailed
from kerolox.cli.admin.output import Text
from kerolox.cli.admin.topics.topics import TOPIC
from kerolox.wire.bodies.offsets import QueueEntryData
from kerolox.wire.bodies.queues import MessageQueue

_LINE = "=" * 38 + "\n"


@command(
    "queryCq",
    "Query cq command.",
    TOPIC,
    required("q", "queue", "queue num, ie. 1"),
    required("i", "index", "start queue index."),
    Flag("c", "count", "how many."),
    Flag("b", "broker", "broker addr."),
    Flag("g", "consumer", "consumer group."),
)
async def query_cq(call: Call) -> Output:
    topic, start = call["topic"], call.number("index")
    broker = call.get("broker") or (await call.admin.topics.route(topic)).data.broker_datas[0].broker_name
    queue = MessageQueue(broker, call.number("queue"), topic)
    data = await call.admin.queues.entries(queue, start, call.number("count", 10), group=call.get("consumer"))
    if data is None:
        raise CommandFailed(f"no entry at offset {start} of {java_format.queue(queue)}")
    if data.subscription_data is not None:
        yield Text(f"Subscription data: \n{java_format.pretty_json(data.subscription_data)}\n{_LINE}")
    if data.filter_data is not None:
        yield Text(f"Filter data: \n{data.filter_data}\n{_LINE}")
    ends = {"max": data.max_queue_index, "min": data.min_queue_index}
    yield Text(f"Queue data: \nmax: {data.max_queue_index}, min: {data.min_queue_index}\n{_LINE}", ends)
    for number, entry in enumerate(data.queue_data or [], start):
        value = {"index": number, **msgspec.to_builtins(entry)}
        yield Text(f"idx: {number}\n{_entry_text(entry)}\n{_LINE}", value)


def _entry_text(entry: QueueEntryData) -> str:
    numbers = f"physicOffset={entry.physic_offset}, physicSize={entry.physic_size}, tagsCode={entry.tags_code}"
    values = (entry.extend_data_json, entry.bit_map, entry.eval, entry.msg)
    extended, bit_map, is_match, message = map(java_format.text, values)
    texts = f"extendDataJson='{extended}', bitMap='{bit_map}', eval={is_match}, msg='{message}'"
    return f"ConsumeQueueData{{{numbers}, {texts}}}"
