"""Statistics of topics and consumer groups: offsets, lag, rates."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from datetime import datetime

from kerolox.broker.parts import BrokerParts
from kerolox.errors import TopicNotFound
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import Turns, in_turns
from kerolox.runtime.text import fastjson
from kerolox.wire.bodies.offsets import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
    CorrectionOffsets,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.headers import offsets as o
from kerolox.wire.reply import Reply

# Handled without yielding to other tasks. A queue takes longer than a key: a message is read.
_QUEUES_AT_ONCE = 50
_KEYS_AT_ONCE = 2000
_LONG_MAX = 2**63 - 1


class ConsumeStatsProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._statistics = parts.statistics
        self._slow_consumers = parts.slow_consumers
        self._addresses = parts.addresses
        self._broker_name = parts.config.broker_name
        self._clock = parts.clock

    @handles(h.GetTopicStatsInfo)
    async def topic_stats(self, request: Incoming[h.GetTopicStatsInfo]) -> Reply[Empty]:
        topic = self._topic(request.header.topic)
        reader, name = self._store.reader, topic.topic_name
        table: dict[MessageQueue, TopicOffset] = {}
        async for queue in self._queues(topic, max(topic.write_queue_nums, topic.read_queue_nums)):
            high = reader.max_offset(name, queue.queue_id)
            table[queue] = TopicOffset(
                last_update_timestamp=reader.store_time(name, queue.queue_id, high - 1) if high else 0,
                max_offset=high,
                min_offset=max(0, reader.min_offset(name, queue.queue_id)),
            )
        return Reply(None, TopicStatsTable(table, self._statistics.put_rate(name)).encode())

    # Groups

    @handles(h.GetConsumeStats)
    async def consume_stats(self, request: Incoming[h.GetConsumeStats]) -> Reply[Empty]:
        header = request.header
        total_stats = ConsumeStats()
        turns = Turns(_QUEUES_AT_ONCE)
        for name in self._topics_of(header):
            topic = self._topics.get(name)
            if topic is not None:
                await self._add_stats(total_stats, header.consumer_group, topic, topic.read_queue_nums, turns)
        return Reply(None, total_stats.encode())

    def _topics_of(self, header: h.GetConsumeStats) -> list[str]:
        listed = [topic.strip() for topic in (header.topic_list or "").split(";") if topic.strip()]
        if listed:
            return list(dict.fromkeys(listed))
        group = header.consumer_group
        topics = [header.topic] if header.topic and header.topic.strip() else self._offsets.topics_of(group)
        return [topic for topic in topics if self._is_subscribed(group, topic)]

    def _is_subscribed(self, group: str, topic: str) -> bool:
        """Whether a group subscribes to a topic; True if the group is not online."""
        members = self._clients.consumers.get(group)
        return members is None or not members.subscriptions or topic in members.subscriptions

    async def _add_stats(
        self, stats: ConsumeStats, group: str, topic: TopicConfig, queue_nums: int, turns: Turns
    ) -> None:
        reader, name = self._store.reader, topic.topic_name
        for queue_id in range(queue_nums):
            queue = MessageQueue(self._broker_name, queue_id, name)
            offset = max(0, self._offsets.get(group, name, queue.queue_id) or 0)
            pulled = offset
            if not self._offsets.is_reset(group, name, queue_id):
                pulled = max(offset, self._slow_consumers.next_offset(name, group, queue_id) or 0)
            stored = reader.store_time(name, queue.queue_id, offset - 1) if offset else 0
            stats.offset_table[queue] = OffsetWrapper(
                broker_offset=reader.max_offset(name, queue.queue_id),
                consumer_offset=offset,
                last_timestamp=max(0, stored),
                pull_offset=pulled,
            )
            await turns.step()
        stats.consume_tps += self._statistics.get_rate(name, group)

    @handles(h.GetBrokerConsumeStats)
    async def broker_consume_stats(self, request: Incoming[h.GetBrokerConsumeStats]) -> Reply[Empty]:
        topics_of: defaultdict[str, list[str]] = defaultdict(list)
        async for key in in_turns(list(self._offsets.table), count=_KEYS_AT_ONCE):
            name, _, group = key.partition("@")
            topics_of[group].append(name)
        total = total_inflight = 0
        pieces: list[bytes] = []
        turns = Turns(_QUEUES_AT_ONCE)
        for group in list(self._groups.groups):
            group_stats: list[ConsumeStats] = []
            for name in topics_of.get(group, ()):
                topic = self._topics.get(name)
                if topic is None or (request.header.is_order and not topic.order):
                    continue
                if self._is_subscribed(group, name):
                    stats = ConsumeStats()
                    await self._add_stats(stats, group, topic, topic.write_queue_nums, turns)
                    total += sum(queue.broker_offset - queue.consumer_offset for queue in stats.offset_table.values())
                    total_inflight += sum(
                        (queue.pull_offset or 0) - queue.consumer_offset for queue in stats.offset_table.values()
                    )
                    group_stats.append(stats)
            # Encoded one by one, because encoding all at once would block other tasks.
            pieces.append(fastjson.encode({group: group_stats}))
            await turns.step()
        total_stats = BrokerConsumeStats(
            broker_addr=self._addresses.address,
            consume_stats_list=[],
            total_diff=total,
            total_inflight_diff=total_inflight,
        )
        return Reply(None, total_stats.encode().replace(b"[]", b"[" + b",".join(pieces) + b"]", 1))

    @handles(h.QueryConsumeTimeSpan)
    async def time_span(self, request: Incoming[h.QueryConsumeTimeSpan]) -> Reply[Empty]:
        topic, group = self._topic(request.header.topic), request.header.group
        reader, name = self._store.reader, topic.topic_name
        spans: list[ConsumeTimeSpan] = []
        async for queue in self._queues(topic, topic.write_queue_nums):
            queue_id = queue.queue_id
            high = reader.max_offset(name, queue_id)
            offset = self._offsets.get(group, name, queue_id)
            first = reader.earliest_time(name, queue_id)
            consumed = reader.store_time(name, queue_id, offset - 1) if offset else first
            last = reader.store_time(name, queue_id, high - 1)
            delay = 0
            # Java takes -1 as the offset of a group that never consumed, and returns the time since 1970 as its delay.
            if (offset or 0) < high:
                delay = self._clock.millis() - reader.store_time(name, queue_id, offset or 0)
            spans.append(
                ConsumeTimeSpan(
                    consume_time_stamp=consumed,
                    consume_time_stamp_str=_time(consumed),
                    delay_time=delay,
                    max_time_stamp=last,
                    max_time_stamp_str=_time(last),
                    message_queue=queue,
                    min_time_stamp=first,
                    min_time_stamp_str=_time(first),
                )
            )
        return Reply(None, ConsumeTimeSpans(spans).encode())

    @handles(o.QueryCorrectionOffset)
    async def correction(self, request: Incoming[o.QueryCorrectionOffset]) -> Reply[Empty]:
        """Return the lowest offset of all groups per queue; Long.MAX_VALUE if the compared group is lower."""
        header = request.header
        excluded = set((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in self._offsets.groups_of(header.topic):
            if group not in excluded:
                async for queue_id, offset in in_turns(self._queue_offsets(header.topic, group), count=_KEYS_AT_ONCE):
                    if offset >= self._store.reader.min_offset(header.topic, queue_id):
                        lowest[queue_id] = min(offset, lowest.get(queue_id, _LONG_MAX))
        for queue_id, offset in self._queue_offsets(header.topic, header.compare_group):
            if queue_id in lowest and lowest[queue_id] > offset:
                lowest[queue_id] = _LONG_MAX
        return Reply(None, CorrectionOffsets(lowest).encode())

    def _queue_offsets(self, topic: str, group: str) -> Iterable[tuple[int, int]]:
        return list(self._offsets.table.get(f"{topic}@{group}", {}).items())

    @handles(o.CloneGroupOffset)
    async def clone(self, request: Incoming[o.CloneGroupOffset]) -> Reply[Empty]:
        header = request.header
        source = header.src_group
        self._groups.find(header.dest_group)
        topics = [header.topic] if header.topic and header.topic.strip() else self._offsets.topics_of(source)
        async for topic in in_turns(topics, count=_QUEUES_AT_ONCE):
            if self._topics.get(topic) is not None and (header.offline or self._is_subscribed(source, topic)):
                self._offsets.clone(source, header.dest_group, topic)
        await self._offsets.file.save()
        return Reply()

    def _topic(self, name: str) -> TopicConfig:
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotFound(f"topic[{name}] not exist")
        return topic

    async def _queues(self, topic: TopicConfig, count: int) -> AsyncIterator[MessageQueue]:
        async for queue_id in in_turns(range(count), count=_QUEUES_AT_ONCE):
            yield MessageQueue(self._broker_name, queue_id, topic.topic_name)


def _time(millis: int) -> str:
    moment = datetime.fromtimestamp(millis / 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{millis % 1000:03d}"
