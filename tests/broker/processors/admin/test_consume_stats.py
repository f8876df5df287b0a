"""Statistics of topics and consumer groups."""

import asyncio
from pathlib import Path

import pytest

from kerolox.errors import TopicNotFound
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.offsets import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    TopicStatsTable,
)
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.broker import GetBrokerConsumeStats, GetConsumeStats, GetTopicStatsInfo, QueryConsumeTimeSpan
from kerolox.wire.headers.offsets import CloneGroupOffset, QueryCorrectionOffset
from tests.broker.brokers import BrokerFixture, pulling, running

NOW = 1_700_049_600_000


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue("broker-a", queue_id, topic)


async def test_topic_stats_have_offsets_and_put_rate(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with running(tmp_path, clock) as broker:
        for _ in range(3):
            await broker.send("orders", b"one", queue_id=1)
        await clock.advance(10)

        found = TopicStatsTable.decode((await broker.call(GetTopicStatsInfo(topic="orders"))).body)

        assert sorted(found.offset_table) == [queue(number) for number in range(4)]
        of_queue = found.offset_table[queue(1)]
        assert (of_queue.min_offset, of_queue.max_offset, of_queue.last_update_timestamp) == (0, 3, NOW)
        assert found.offset_table[queue(0)].last_update_timestamp == 0
        assert found.topic_put_tps == 0.3
        with pytest.raises(TopicNotFound):
            await broker.call(GetTopicStatsInfo(topic="nothing"))


async def test_consume_stats_cover_topics_with_committed_offsets(broker: BrokerFixture) -> None:
    for topic in ("orders", "bills"):
        await broker.send(topic, b"one")
        await broker.send(topic, b"two")
        broker.broker.offsets.commit("group", topic, 0, 1)

    async def stats(**fields: str) -> dict[MessageQueue, tuple[int, int]]:
        reply = await broker.call(GetConsumeStats(consumer_group="group", **fields))
        table = ConsumeStats.decode(reply.body).offset_table
        assert all((of.last_timestamp > 0) == (of.consumer_offset > 0) for of in table.values())
        return {key: (of.broker_offset, of.consumer_offset) for key, of in table.items() if key.queue_id == 0}

    assert await stats() == {queue(0): (2, 1), queue(0, "bills"): (2, 1)}
    assert await stats(topic="bills") == {queue(0, "bills"): (2, 1)}
    await broker.heartbeat(consumes={"group": ["orders"]})
    # An online group has only topics it subscribes to, unless the request names topics.
    assert await stats() == {queue(0): (2, 1)}
    assert await stats(topic="bills") == {}
    assert await stats(topic_list="bills; nothing") == {queue(0, "bills"): (2, 1)}


async def test_messages_that_were_pulled_and_not_committed_are_in_flight(broker: BrokerFixture) -> None:
    for body in (b"one", b"two", b"three"):
        await broker.send("orders", body)
    broker.broker.groups.find("group")
    broker.broker.offsets.commit("group", "orders", 0, 1)
    await broker.call(pulling("orders", 0, 1, consumer_group="group", max_msg_nums=1))

    async def in_flight() -> tuple[int, int | None, int | None]:
        reply = await broker.call(GetConsumeStats(consumer_group="group", topic="orders"))
        of_queue = ConsumeStats.decode(reply.body).offset_table[queue(0)]
        of_all = BrokerConsumeStats.decode((await broker.call(GetBrokerConsumeStats(is_order=False))).body)
        return of_queue.consumer_offset, of_queue.pull_offset, of_all.total_inflight_diff

    assert await in_flight() == (1, 2, 1)
    broker.broker.offsets.commit("group", "orders", 0, 3)
    assert await in_flight() == (3, 3, 0)
    # While a reset is pending, earlier pulls do not count.
    broker.broker.offsets.reset("group", "orders", 0, 0)
    assert await in_flight() == (0, 0, 0)


async def test_broker_consume_stats_have_all_groups_and_their_total_lag(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    await broker.send("orders", b"two")
    for group in ("first", "second"):
        broker.broker.groups.find(group)
        broker.broker.offsets.commit(group, "orders", 0, 0 if group == "first" else 1)

    found = BrokerConsumeStats.decode((await broker.call(GetBrokerConsumeStats(is_order=False))).body)

    stats = {group: of for item in found.consume_stats_list for group, of in item.items()}
    assert set(stats) == set(broker.broker.groups.groups)
    assert stats["second"][0].offset_table[queue(0)].consumer_offset == 1
    assert (found.total_diff, found.broker_addr) == (3, broker.broker.address)
    ordered = BrokerConsumeStats.decode((await broker.call(GetBrokerConsumeStats(is_order=True))).body)
    assert ordered.total_diff == 0


async def test_stats_of_thousands_of_groups_do_not_block_other_requests(broker: BrokerFixture) -> None:
    await broker.send("orders", b"one")
    for number in range(2000):
        broker.broker.groups.find(f"group{number}")
        broker.broker.offsets.commit(f"group{number}", "orders", 0, 0)

    asking = asyncio.create_task(broker.call(GetBrokerConsumeStats(is_order=False)))
    turns = 0
    while not asking.done():
        await asyncio.sleep(0)
        turns += 1

    assert BrokerConsumeStats.decode(_standard((await asking).body)).total_diff == 2000
    assert turns > 100


def _standard(body: bytes) -> bytes:
    """Keep the totals only: the full body is too long for the fastjson decoder."""
    return b"{" + body[body.index(b'"totalDiff"') :].replace(b"}", b',"brokerAddr":"","consumeStatsList":[]}')


async def test_the_consume_time_span_has_the_delay_of_a_group(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with running(tmp_path, clock) as broker:
        await broker.send("orders", b"one")
        await clock.advance(5)
        await broker.send("orders", b"two")
        await clock.advance(2)
        broker.broker.offsets.commit("group", "orders", 0, 1)

        reply = await broker.call(QueryConsumeTimeSpan(topic="orders", group="group"))

    spans = {span.message_queue.queue_id: span for span in ConsumeTimeSpans.decode(reply.body).consume_time_span_set}
    first = spans[0]
    assert (first.min_time_stamp, first.max_time_stamp, first.consume_time_stamp) == (NOW, NOW + 5000, NOW)
    assert first.delay_time == 2000
    assert (first.min_time_stamp_str or "").endswith(":000")
    assert (spans[1].min_time_stamp, spans[1].delay_time) == (-1, 0)


async def test_the_correction_offset_is_the_lowest_of_all_groups(broker: BrokerFixture) -> None:
    for group, offset in (("first", 5), ("second", 3), ("third", 1)):
        broker.broker.offsets.commit(group, "orders", 0, offset)

    async def corrections(compared: str, excluded: str | None = None) -> dict[int, int]:
        request = QueryCorrectionOffset(filter_groups=excluded, compare_group=compared, topic="orders")
        return CorrectionOffsets.decode((await broker.call(request)).body).correction_offsets

    assert await corrections("first") == {0: 1}
    assert await corrections("third", "third") == {0: 2**63 - 1}
    assert broker.broker.offsets.get("third", "orders", 0) == 1


async def test_offsets_of_a_group_can_be_cloned(broker: BrokerFixture) -> None:
    for topic in ("orders", "bills"):
        await broker.send(topic, b"one")
        broker.broker.offsets.commit("group", topic, 2, 7)

    await broker.call(CloneGroupOffset(src_group="group", dest_group="one", topic="orders", offline=True))
    await broker.call(CloneGroupOffset(src_group="group", dest_group="all", offline=True))

    offsets = broker.broker.offsets
    assert [offsets.get("one", topic, 2) for topic in ("orders", "bills")] == [7, None]
    assert [offsets.get("all", topic, 2) for topic in ("orders", "bills")] == [7, 7]
