"""Positions in queues, and how far groups have come, over a real socket."""

from pathlib import Path

import msgspec
import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.errors import QueryNotFound, TopicNotFound
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.headers import offsets as h
from tests.broker.brokers import BrokerFixture, running


def committing(
    queue_id: int | None, offset: int | None, group: str = "group", topic: str = "orders"
) -> h.UpdateConsumerOffset:
    return h.UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)


@pytest.fixture
async def sent(broker: BrokerFixture) -> BrokerFixture:
    """Three messages, and a group that may commit."""
    for number in range(3):
        await broker.send("orders", b"%d" % number)
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="group"))
    return broker


async def test_a_queue_has_a_beginning_and_an_end(sent: BrokerFixture) -> None:
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0))).fields.offset == 3
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=False))).fields.offset == 3
    assert (await sent.call(h.GetMinOffset(topic="orders", queue_id=0))).fields.offset == 0
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=3))).fields.offset == 0
    assert (await sent.call(h.GetMinOffset(topic="orders", queue_id=3))).fields.offset == 0


async def test_what_readers_do_not_see_yet_counts_only_for_who_asks_for_it(sent: BrokerFixture) -> None:
    """Under SYNC_FLUSH that is what is not durable yet; here readers are kept from following the log."""
    sent.broker.store._follow = lambda *_: False  # type: ignore[method-assign]
    await sent.send("orders", b"more")

    appended = (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=False))).fields.offset
    committed = (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=True))).fields.offset

    assert (appended, committed) == (4, 3)
    del sent.broker.store._follow


async def test_a_time_means_an_offset(sent: BrokerFixture) -> None:
    times = [message.store_timestamp for message in await sent.messages("orders")]
    first_from_last = times.index(times[-1])

    async def search(timestamp: int, boundary: str | None = None, queue_id: int = 0) -> int | None:
        return (
            await sent.call(
                h.SearchOffset(topic="orders", queue_id=queue_id, timestamp=timestamp, boundary_type=boundary)
            )
        ).fields.offset

    assert await search(0) == 0
    assert await search(times[-1]) == first_from_last
    assert await search(times[-1] + 1) == 3
    assert await search(times[-1], "upper") == 2
    assert await search(times[-1], "LOWER") == first_from_last
    assert await search(times[-1], queue_id=3) == 0


async def test_the_first_message_of_a_queue_has_a_time(sent: BrokerFixture) -> None:
    (first, *_) = await sent.messages("orders")

    assert (
        await sent.call(h.GetEarliestMsgStoretime(topic="orders", queue_id=0))
    ).fields.timestamp == first.store_timestamp
    assert (await sent.call(h.GetEarliestMsgStoretime(topic="orders", queue_id=3))).fields.timestamp == -1


async def test_what_a_group_commits_is_where_it_goes_on_even_if_it_goes_back(sent: BrokerFixture) -> None:
    for offset in (3, 1):
        await sent.call(committing(0, offset))

    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
    ).fields.offset == 1


async def test_a_new_group_on_a_young_queue_begins_with_its_first_message(sent: BrokerFixture) -> None:
    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
    ).fields.offset == 0
    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="unknown", queue_id=0))
    ).fields.offset == 0
    with pytest.raises(QueryNotFound):
        await sent.call(
            h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0, set_zero_if_not_found=False)
        )


async def test_a_new_group_on_an_old_queue_decides_for_itself(
    sent: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first message is still there, but so far back that it is not in memory."""
    bounds = msgspec.structs.replace(sent.broker.store.reader.bounds, memory_size=10)
    monkeypatch.setattr(sent.broker.store.reader, "bounds", bounds)

    with pytest.raises(QueryNotFound):
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))


async def test_offsets_of_what_is_not_there_are_refused(sent: BrokerFixture) -> None:
    with pytest.raises(GroupNotFound, match="Group unknown not exist!"):
        await sent.call(committing(0, 1, "unknown", "orders"))
    with pytest.raises(TopicNotFound, match="Topic unknown not exist!"):
        await sent.call(committing(0, 1, "group", "unknown"))
    with pytest.raises(InvalidParameter, match="QueueId is null"):
        await sent.call(committing(None, 1))
    with pytest.raises(InvalidParameter, match="Offset is null"):
        await sent.call(committing(0, None))


@pytest.mark.parametrize("queue_id", [-1, 8, 2**31 - 1])
async def test_a_queue_that_its_topic_does_not_have_gets_no_offset(sent: BrokerFixture, queue_id: int) -> None:
    """Else anybody could fill the table of offsets."""
    with pytest.raises(InvalidParameter, match=f"queueId {queue_id} is illegal, topic orders has 4 queues"):
        await sent.call(committing(queue_id, 1))

    assert sent.broker.offsets.table == {}


async def test_a_queue_that_its_topic_once_had_may_be_consumed_to_its_end(sent: BrokerFixture) -> None:
    await sent.send("orders", b"last", 3)
    topics = sent.broker.topics
    topics.put(msgspec.structs.replace(topics.find("orders"), read_queue_nums=1, write_queue_nums=1))

    await sent.call(committing(3, 1))

    assert sent.broker.offsets.get("group", "orders", 3) == 1
    with pytest.raises(InvalidParameter):
        await sent.call(committing(2, 1))


async def test_a_reset_that_a_group_has_not_learned_of_counts_instead_of_what_it_commits(sent: BrokerFixture) -> None:
    await sent.call(committing(0, 2))
    sent.broker.offsets.resets["orders@group"] = {0: 1}

    reply = await sent.call(committing(0, 3))

    assert reply.remark == "Offset has been previously reset"
    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
    ).fields.offset == 1
    sent.broker.offsets.resets.clear()
    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
    ).fields.offset == 2


async def test_resets_may_be_left_to_clients(tmp_path: Path) -> None:
    async with running(tmp_path, useServerSideResetOffset="false") as broker:
        await broker.send("orders", b"body")
        broker.broker.groups.put(SubscriptionGroupConfig(group_name="group"))
        broker.broker.offsets.resets["orders@group"] = {0: 0}

        await broker.call(committing(0, 1))

        assert (
            await broker.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
        ).fields.offset == 1
