"""Pages of the messages of a topic, the newest first, merged from all queues."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from kerolox.admin import AdminClient
from kerolox.client.messages import Received
from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.views import body_text
from kerolox.dashboard.views.pagination import gather_limited
from kerolox.wire.bodies.queues import MessageQueue

PAGE_SIZE = 50
# Each page takes requests to every queue of the topic; further queues are not listed.
QUEUES_MAX = 256


@dataclass(frozen=True, slots=True)
class Row:
    """A message in a list, without its body, which would take too much memory."""

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
    def location(self) -> str:
        """The position of the message, as in forms and links (see message_location)."""
        return f"{self.broker}:{self.queue_id}:{self.queue_offset}"


@dataclass(frozen=True, slots=True)
class MessageListPage:
    rows: list[Row]
    # Position of the next page: an offset for each queue; None on the last page.
    cursor: str | None
    queue_count: int


def to_row(message: Received) -> Row:
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
        body_text.preview(message),
    )


async def newest_messages(
    admin: AdminClient, topic: str, begin: int | None, end: int | None, cursor: str = "", size: int = PAGE_SIZE
) -> MessageListPage:
    """Return a page of the messages stored between two times, in milliseconds; with a cursor, a later page."""
    queues = (await admin.topics.route(topic)).read_queues[:QUEUES_MAX]
    bounds = await gather_limited(queues, lambda queue: _bounds(admin, queue, begin, end))
    if cursor:
        limits = _parse_cursor(cursor, len(queues))
        bounds = [(low, min(high, limit)) for (low, high), limit in zip(bounds, limits, strict=True)]

    async def last_rows(item: tuple[MessageQueue, tuple[int, int]]) -> list[Row]:
        queue, (low, high) = item
        rows = await _rows(admin, queue, max(low, high - size), high)
        return [it for it in rows if (begin or 0) <= it.stored_millis and (end is None or it.stored_millis <= end)]

    found = await gather_limited(zip(queues, bounds, strict=True), last_rows)
    rows = _merge_newest(found, size)
    next_ends = [_next_end(queue, high, rows) for queue, (_, high) in zip(queues, bounds, strict=True)]
    has_more = bool(rows) and any(low < next_end for (low, _), next_end in zip(bounds, next_ends, strict=True))
    return MessageListPage(rows, ".".join(map(str, next_ends)) if has_more else None, len(queues))


async def _bounds(admin: AdminClient, queue: MessageQueue, begin: int | None, end: int | None) -> tuple[int, int]:
    """Return the range of queue offsets between two times; it may have one message too many, since brokers differ."""
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
        rows += [to_row(message) for message in pulled.messages if offset <= message.queue_offset < stop]
        if pulled.next_offset <= offset:
            break
        offset = pulled.next_offset
    return rows


def _merge_newest(parts: Sequence[Sequence[Row]], size: int) -> list[Row]:
    """Return the newest rows of several queues.

    Each queue is consumed from its end in offset order, even if its store times are not in order because a clock was
    set back: the cursor has only one offset per queue.
    """
    rows: list[Row] = []
    ends = [(-part[-1].stored_millis, number, len(part) - 1) for number, part in enumerate(parts) if part]
    heapq.heapify(ends)
    while ends and len(rows) < size:
        _, number, at = heapq.heappop(ends)
        rows.append(parts[number][at])
        if at > 0:
            heapq.heappush(ends, (-parts[number][at - 1].stored_millis, number, at - 1))
    return rows


def _next_end(queue: MessageQueue, high: int, rows: Sequence[Row]) -> int:
    offsets = [it.queue_offset for it in rows if (it.broker, it.queue_id) == (queue.broker_name, queue.queue_id)]
    return min(offsets, default=high)


def _parse_cursor(cursor: str, count: int) -> list[int]:
    parts = cursor.split(".")
    if len(parts) != count or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise RequestRefused("the queues of this topic have changed: search again")
    return [int(part) for part in parts]
