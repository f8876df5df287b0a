"""Collects the sends of one loop iteration, and stores those that are plain together, as columns.

A plain send has nothing unusual: no delay, transaction or batch, and a topic that exists. All plain sends of a loop
iteration are encoded, appended with one write, dispatched and answered in one pass, whatever topics they are for. The
others are handled one by one, in their place between the plain ones, so that log order equals arrival order.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add, not_, sub
from time import perf_counter_ns
from typing import Any, TypeAlias

from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.admission import Admission
from kerolox.broker.send.columns import SendColumns
from kerolox.broker.send.header_blocks import FEW, HeaderBlock
from kerolox.broker.send.put import MessagePut, refusal
from kerolox.broker.send.responses import UNIQUE_KEY_SIZE_MAX, Place, SendResponses, places_of
from kerolox.message import property_names, sysflag
from kerolox.message.ids import offset_id
from kerolox.message.properties import mark
from kerolox.message.records.record import PROPERTIES_SIZE_MAX
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming, Later
from kerolox.runtime.event_loop import at_end_of_turn
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.wire.frames import Frame
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

# Transactional messages and inner batches are not plain.
_UNUSUAL = sysflag.TRANSACTION_MASK | sysflag.INNER_BATCH
# An upper bound on the record size beside body and properties.
_REST_SIZE_MAX = 512
# At most this many bytes form one append: an append never spans two files of the log.
_APPEND_SIZE_MAX = 256 * 1024
# Fewer messages are cheaper one by one.
COLUMNS_MIN = 4

# Sends that arrived one after the other: decoded requests, or frames.
Group: TypeAlias = list[Incoming[Any]] | HeaderBlock


class SendCollector:
    def __init__(self, parts: BrokerParts, admission: Admission) -> None:
        config, message_put = parts.config, parts.message_put
        self._admission = admission
        self._message_put = message_put
        self.request_queue = parts.request_queues["send"]
        self._body_size_max = message_put.encoder.body_size_max
        self._cluster = mark(property_names.CLUSTER) + config.broker_cluster_name.encode() + b"\x02"
        # A message that fits into no file of the log would have all others of its append refused.
        self._size_max = message_put.store.log.append_size_max - _REST_SIZE_MAX
        self._loop: asyncio.AbstractEventLoop | None = None
        # Sends of this loop iteration in the order of arrival, and when the first one arrived.
        self._arrived: list[Group] = []
        # The requests that were taken since the last block.
        self._taken: list[Incoming[Any]] | None = None
        self.began = 0
        self.statistics = parts.statistics
        self.answers = SendResponses(config, message_put)
        # Whether the last loop iteration brought at least FEW sends.
        self._is_busy = False

    def take(self, request: Incoming[Any]) -> None:
        """Take a send, which is handled at the end of this loop iteration."""
        if self._taken is None:
            self._taken = []
            self._add(self._taken)
        self._taken.append(request)

    def collect(self, frames: Sequence[Frame], connection: Connection) -> bool:
        """Collect the frames of one read, to decode them with others at the end of this loop iteration; False if few.

        The caller has found that all of them are sends.
        """
        if len(frames) < FEW and not self._is_busy:
            return False
        block = self._arrived[-1] if self._arrived else None
        if not isinstance(block, HeaderBlock):
            block = HeaderBlock()
            self._add(block)
            self._taken = None
        block.add(frames, connection)
        return True

    def _add(self, group: Group) -> None:
        if not self._arrived:
            self._loop = self._loop or asyncio.get_running_loop()
            at_end_of_turn(self._loop, self._end)
            self.began = perf_counter_ns()
        self._arrived.append(group)

    def _arrivals(self) -> list[Group]:
        """Return what has arrived since the last call."""
        arrived, self._arrived, self._taken = self._arrived, [], None
        return arrived

    def _end(self) -> None:
        """Handle what has arrived in this loop iteration."""
        arrived = self._arrivals()
        self._is_busy = sum(map(len, arrived)) >= FEW
        if len(arrived) == 1 and isinstance(arrived[0], list) and _are_few(arrived[0]):
            # The usual case under low load.
            for request in arrived[0]:
                request.connection.handle_taken(request)
            return
        readable: list[Group] = []
        for group in arrived:
            for part in self._readable(group):
                if readable and isinstance(part, list) and isinstance(readable[-1], list):
                    readable[-1] += part
                else:
                    readable.append(part)
        sends = SendColumns(self._cluster)
        try:
            sends.add_all(readable, self._message_put.encoder.properties)
            unusual = self._find_unusual(sends)
        except Exception:
            # These and all other requests must be answered, whatever failed.
            log.exception("handling %d sends one by one", sum(map(len, readable)))
            sends = SendColumns.without_messages(readable)
            unusual = set(range(len(sends)))
        first = 0
        for end in (*sorted(unusual), len(sends)):
            self._store(sends, first, end)
            _handle_singly(sends, end, min(end + 1, len(sends)))
            first = end + 1

    def _readable(self, group: Group) -> Iterator[Group]:
        """Read blocks as columns, if the policies admit their requests; otherwise decode each request."""
        if not isinstance(group, HeaderBlock):
            yield group
            return
        if _read(group):
            admitted = [_is_admitted(group, connection, count) for connection, count in group.owners]
            if all(admitted):
                yield group
                return
            parts = zip(group.split(), admitted, strict=True)
        elif len(group.owners) > 1 and max(count for _, count in group.owners) >= FEW:
            # Producers on different connections may have different headers.
            split = group.split()
            parts = zip(split, [_read(part) and _is_admitted(part, *part.owners[0]) for part in split], strict=True)
        else:
            parts = zip([group], [False], strict=True)
        for part, is_admitted in parts:
            if is_admitted:
                yield part
            else:
                yield from self._decode(part)

    def _decode(self, block: HeaderBlock) -> Iterator[Group]:
        """Decode frames, and yield the requests that are taken."""
        origins = block.origins
        decoded = origins[0].decode_taken(block.frames, origins)
        taken: list[Incoming[Any]] = []
        for item, connection in zip(decoded, origins, strict=True):
            if isinstance(item, Incoming):
                taken.append(item)
            elif item is not None:
                yield taken
                taken = []
                yield from self._answer(item, connection)
        yield taken

    def _answer(self, frame: Frame, connection: Connection) -> list[Group]:
        """Hand an unusual frame back to its connection, and return the request if it is taken."""
        try:
            connection.answer((frame,))
        except Exception:
            # A failing connection must not keep the others from being answered.
            log.exception("closed the connection to %s", connection.remote)
            connection.abort()
        return self._arrivals()

    def _find_unusual(self, sends: SendColumns) -> set[int]:
        """Return the rows that are not plain, and must be handled one by one."""
        if len(sends) < COLUMNS_MIN:
            return set(range(len(sends)))
        messages = sends.messages
        queues = set(messages.queues)
        queue_counts = {topic: self._admission.plain_queue_count(topic) for topic in {topic for topic, _ in queues}}
        body_sizes, properties_sizes = set(map(len, messages.bodies)), set(map(len, messages.properties))
        key_sizes = set(map(len, sends.unique_keys))
        # A rule, values to try first, and the column: if all of those values are usual, so is the whole column.
        rules: tuple[tuple[Callable[[Any], bool], Iterable[Any], Iterable[Any]], ...] = (
            (lambda queue: 0 <= queue[1] < queue_counts[queue[0]], queues, messages.queues),
            (lambda sys_flag: not sys_flag & _UNUSUAL, set(messages.sys_flags), messages.sys_flags),
            (not_, set(sends.batches), sends.batches),
            (bytes.isalnum, (b"".join(sends.unique_keys),), sends.unique_keys),
            (lambda size: 0 < size <= UNIQUE_KEY_SIZE_MAX, _extremes(key_sizes), map(len, sends.unique_keys)),
            (lambda size: 0 < size <= self._body_size_max, _extremes(body_sizes), map(len, messages.bodies)),
            (lambda size: size <= PROPERTIES_SIZE_MAX, _extremes(properties_sizes), map(len, messages.properties)),
            (
                lambda size: size <= self._size_max,
                (max(body_sizes) + max(properties_sizes),),
                map(add, map(len, messages.bodies), map(len, messages.properties)),
            ),
        )
        room = self.request_queue.capacity - self.request_queue.under_way
        unusual = set(range(max(room, 0), len(sends)))
        for is_usual, tried, column in rules:
            if not all(map(is_usual, tried)):
                unusual.update(row for row, value in enumerate(column) if not is_usual(value))
        return unusual

    def _store(self, sends: SendColumns, first: int, end: int) -> None:
        """Store plain sends together, unless they are few."""
        if end - first < COLUMNS_MIN:
            _handle_singly(sends, first, end)
            return
        part = sends.part(first, end)
        self.request_queue.under_way += len(part)
        Run(self, part).submit(self._message_put)

    def refused(self, error: Exception) -> Reply[h.Sent]:
        return self._admission.refused(refusal(error))

    def not_acknowledged(self, place: Place, unique_key: bytes, status: AckStatus) -> Reply[h.Sent]:
        queue_id, physical_offset, queue_offset = place
        return self._admission.sent(
            offset_id(self._message_put.store_host, physical_offset),
            queue_id,
            queue_offset,
            unique_key.decode("utf-8", "replace"),
            status=status,
        )


def _read(block: HeaderBlock) -> bool:
    try:
        return block.read()
    except Exception:
        log.exception("decoding %d sends one by one", len(block))
        return False


def _is_admitted(block: HeaderBlock, connection: Connection, count: int) -> bool:
    """Whether the policies admit the requests of a connection in a block, without decoding each."""
    assert block.equal is not None
    try:
        return connection.admits(block.equal.template.request, count)
    except Exception:
        log.exception("decoding %d sends one by one", count)
        return False


def _are_few(requests: Sequence[Incoming[Any]]) -> bool:
    """Whether handling requests one by one is cheaper than to look for plain sends among them."""
    return len(requests) < COLUMNS_MIN or all(request.header.batch for request in requests)


def _extremes(sizes: set[int]) -> tuple[int, int]:
    return min(sizes), max(sizes)


def _handle_singly(sends: SendColumns, first: int, end: int) -> None:
    for row in range(first, end):
        sends.origins[row].handle_taken(sends.request(row))


class Run:
    """Plain sends that are appended together."""

    __slots__ = ("_appends", "_began", "_collector", "_sends")

    def __init__(self, collector: SendCollector, sends: SendColumns) -> None:
        self._collector = collector
        self._sends = sends
        self._began = collector.began
        self._appends: list[Append] = []

    def submit(self, message_put: MessagePut) -> None:
        sends, store = self._sends, message_put.store
        try:
            size_max = min(store.log.append_size_max, _APPEND_SIZE_MAX)
            encode = message_put.encoder.encode_plain
            self._appends = encode(message_put.store_host, sends.messages, sends.key_columns, size_max)
            store.submit_all(self._appends, self, at_once=True)
        except Exception as error:
            self._refuse(sends, error)

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
        collector = self._collector
        appends = self._appends[first : first + len(appended)]
        sends = self._part(first, len(appends))
        self._count(appends, len(sends))
        places: list[Place] = []
        for append, position in zip(appends, appended, strict=True):
            places += places_of(append, position)
        if status is AckStatus.OK:
            collector.answers.send_all(sends, places)
            return
        for row, place in enumerate(places):
            Later[h.Sent](sends.request(row)).answer(collector.not_acknowledged(place, sends.unique_keys[row], status))

    def _count(self, appends: Sequence[Append], count: int) -> None:
        """Count stored messages, by topic."""
        self._collector.request_queue.under_way -= count
        nanos, put_all = perf_counter_ns() - self._began, self._collector.statistics.put_all
        for append in appends:
            assert append.queues is not None
            topics = [topic for topic, _ in append.queues]
            if topics.count(topics[0]) == len(topics):
                put_all(topics[0], len(topics), len(append.records), nanos)
                continue
            totals: dict[str, list[int]] = {}
            sizes = map(sub, (*append.starts[1:], len(append.records)), append.starts)
            for topic, size in zip(topics, sizes, strict=True):
                total = totals.get(topic)
                if total is None:
                    totals[topic] = [1, size]
                else:
                    total[0] += 1
                    total[1] += size
            for topic, (messages, size) in totals.items():
                put_all(topic, messages, size, nanos)

    def refused(self, first: int, count: int, error: Exception) -> None:
        self._refuse(self._part(first, count), error)

    def _refuse(self, sends: SendColumns, error: Exception) -> None:
        self._collector.request_queue.under_way -= len(sends)
        reply = self._collector.refused(error)
        for row in range(len(sends)):
            Later[h.Sent](sends.request(row)).answer(reply)

    def _part(self, first: int, count: int) -> SendColumns:
        """Return the sends that `count` appends cover, the first of which has index `first`."""
        start = sum(len(append.starts) for append in self._appends[:first])
        return self._sends.part(
            start, start + sum(len(append.starts) for append in self._appends[first : first + count])
        )
