"""Messages of a topic, the newest first, a page at a time."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from kerolox.admin import AdminClient
from kerolox.client.messages import Received
from kerolox.dashboard import bodies
from kerolox.dashboard.lists import gathered
from kerolox.dashboard.sentences import Refused
from kerolox.wire.bodies.queues import MessageQueue

PAGE_SIZE = 50
# A page looks at the end of each of so many queues.
QUEUES_MAX = 256


@dataclass(frozen=True, slots=True)
class Row:
    """What a line of a list needs of a message; bodies are let go of."""

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    tag: str
    keys: str
    stored_millis: int
    size: int
    reconsume_times: int
    preview: str

    @property
    def place(self) -> str:
        """Where it lies, as forms and links carry it."""
        return f"{self.broker}:{self.queue_id}:{self.queue_offset}"


@dataclass(frozen=True, slots=True)
class Found:
    rows: list[Row]
    # Where the next page goes on; None if there is none.
    cursor: str | None
    queue_count: int


def row(message: Received) -> Row:
    record = message.record
    return Row(
        record.topic,
        message.queue.broker_name,
        message.queue.queue_id,
        message.queue_offset,
        message.message_id,
        message.tag or "",
        " ".join(message.keys),
        message.stored_millis,
        len(record.body),
        record.reconsume_times,
        bodies.preview(message),
    )


async def newest(
    admin: AdminClient, topic: str, begin: int | None, end: int | None, cursor: str = "", size: int = PAGE_SIZE
) -> Found:
    """Returns the newest messages stored between two times, in milliseconds; from a cursor on, those before them."""
    queues = (await admin.topics.route(topic)).read_queues[:QUEUES_MAX]
    bounds = await gathered(queues, lambda queue: _bounds(admin, queue, begin, end))
    if cursor:
        places = _places(cursor, len(queues))
        bounds = [(low, min(high, place)) for (low, high), place in zip(bounds, places, strict=True)]

    async def ends(item: tuple[MessageQueue, tuple[int, int]]) -> list[Row]:
        queue, (low, high) = item
        rows = await _rows(admin, queue, max(low, high - size), high)
        return [it for it in rows if (begin or 0) <= it.stored_millis and (end is None or it.stored_millis <= end)]

    found = await gathered(zip(queues, bounds, strict=True), ends)
    rows = _merged(found, size)
    left = [_left(queue, high, rows) for queue, (_, high) in zip(queues, bounds, strict=True)]
    has_more = bool(rows) and any(low < place for (low, _), place in zip(bounds, left, strict=True))
    return Found(rows, ".".join(map(str, left)) if has_more else None, len(queues))


async def _bounds(admin: AdminClient, queue: MessageQueue, begin: int | None, end: int | None) -> tuple[int, int]:
    """Returns the offsets between which the messages of these times lie; perhaps one more, since brokers differ."""
    low, high = await admin.queues.min_offset(queue), await admin.queues.max_offset(queue)
    if begin is not None and low < high:
        low = max(low, await admin.queues.search(queue, begin))
    if end is not None and low < high:
        high = min(high, await admin.queues.search(queue, end + 1) + 1)
    return low, high


async def _rows(admin: AdminClient, queue: MessageQueue, offset: int, stop: int) -> list[Row]:
    rows: list[Row] = []
    while offset < stop:
        pulled = await admin.messages.pull(queue, offset, count=min(32, stop - offset))
        rows += [row(message) for message in pulled.messages if offset <= message.queue_offset < stop]
        if pulled.next_offset <= offset:
            break
        offset = pulled.next_offset
    return rows


def _merged(parts: Sequence[Sequence[Row]], size: int) -> list[Row]:
    """Returns the newest of several queues. Each is taken from its end, in its order, even where a clock was set back:
    else the next page would not know where to go on."""
    rows: list[Row] = []
    ends = [(-part[-1].stored_millis, number, len(part) - 1) for number, part in enumerate(parts) if part]
    heapq.heapify(ends)
    while ends and len(rows) < size:
        _, number, at = heapq.heappop(ends)
        rows.append(parts[number][at])
        if at > 0:
            heapq.heappush(ends, (-parts[number][at - 1].stored_millis, number, at - 1))
    return rows


def _left(queue: MessageQueue, high: int, rows: Sequence[Row]) -> int:
    mine = [it.queue_offset for it in rows if (it.broker, it.queue_id) == (queue.broker_name, queue.queue_id)]
    return min(mine, default=high)


def _places(cursor: str, count: int) -> list[int]:
    parts = cursor.split(".")
    if len(parts) != count or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise Refused("the queues of this topic have changed: search again")
    return [int(part) for part in parts]
