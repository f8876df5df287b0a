"""Offsets of queues and groups, over a real socket."""

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
    """A broker with three messages, and a group that may commit."""
    for number in range(3):
        await broker.send("orders", b"%d" % number)
    broker.broker.groups.put(SubscriptionGroupConfig(group_name="group"))
    return broker


async def test_a_queue_has_a_minimum_and_a_maximum_offset(sent: BrokerFixture) -> None:
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0))).fields.offset == 3
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=False))).fields.offset == 3
    assert (await sent.call(h.GetMinOffset(topic="orders", queue_id=0))).fields.offset == 0
    assert (await sent.call(h.GetMaxOffset(topic="orders", queue_id=3))).fields.offset == 0
    assert (await sent.call(h.GetMinOffset(topic="orders", queue_id=3))).fields.offset == 0


async def test_undispatched_messages_count_only_for_uncommitted_max_offset(sent: BrokerFixture) -> None:
    """Under SYNC_FLUSH these are not durable yet; here the dispatch is blocked."""
    sent.broker.store._dispatch = lambda *_: False  # type: ignore[method-assign]
    await sent.send("orders", b"more")

    appended = (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=False))).fields.offset
    committed = (await sent.call(h.GetMaxOffset(topic="orders", queue_id=0, committed=True))).fields.offset

    assert (appended, committed) == (4, 3)
    del sent.broker.store._dispatch


async def test_a_timestamp_is_mapped_to_an_offset(sent: BrokerFixture) -> None:
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


async def test_the_store_time_of_the_first_message_is_returned(sent: BrokerFixture) -> None:
    (first, *_) = await sent.messages("orders")

    assert (
        await sent.call(h.GetEarliestMsgStoretime(topic="orders", queue_id=0))
    ).fields.timestamp == first.store_timestamp
    assert (await sent.call(h.GetEarliestMsgStoretime(topic="orders", queue_id=3))).fields.timestamp == -1


async def test_a_committed_offset_is_returned_even_if_it_is_lower_than_before(sent: BrokerFixture) -> None:
    for offset in (3, 1):
        await sent.call(committing(0, offset))

    assert (
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))
    ).fields.offset == 1


async def test_a_new_group_starts_at_the_first_message_of_a_young_queue(sent: BrokerFixture) -> None:
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


async def test_the_start_of_a_new_group_on_an_old_queue_is_left_to_the_client(
    sent: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first message still exists, but is not in memory."""
    bounds = msgspec.structs.replace(sent.broker.store.reader.bounds, memory_size=10)
    monkeypatch.setattr(sent.broker.store.reader, "bounds", bounds)

    with pytest.raises(QueryNotFound):
        await sent.call(h.QueryConsumerOffset(consumer_group="group", topic="orders", queue_id=0))


async def test_incomplete_commits_and_unknown_topics_or_groups_are_refused(sent: BrokerFixture) -> None:
    with pytest.raises(GroupNotFound, match="Group unknown not exist!"):
        await sent.call(committing(0, 1, "unknown", "orders"))
    with pytest.raises(TopicNotFound, match="Topic unknown not exist!"):
        await sent.call(committing(0, 1, "group", "unknown"))
    with pytest.raises(InvalidParameter, match="QueueId is null"):
        await sent.call(committing(None, 1))
    with pytest.raises(InvalidParameter, match="Offset is null"):
        await sent.call(committing(0, None))


@pytest.mark.parametrize("queue_id", [-1, 8, 2**31 - 1])
async def test_a_commit_for_a_queue_outside_the_topic_is_refused(sent: BrokerFixture, queue_id: int) -> None:
    """Otherwise any client could fill the table of offsets."""
    with pytest.raises(InvalidParameter, match=f"queueId {queue_id} is illegal, topic orders has 4 queues"):
        await sent.call(committing(queue_id, 1))

    assert sent.broker.offsets.table == {}


async def test_commits_for_a_removed_queue_with_messages_are_accepted(sent: BrokerFixture) -> None:
    await sent.send("orders", b"last", 3)
    topics = sent.broker.topics
    topics.put(msgspec.structs.replace(topics.find("orders"), read_queue_nums=1, write_queue_nums=1))

    await sent.call(committing(3, 1))

    assert sent.broker.offsets.get("group", "orders", 3) == 1
    with pytest.raises(InvalidParameter):
        await sent.call(committing(2, 1))


async def test_a_commit_is_ignored_while_a_reset_is_pending(sent: BrokerFixture) -> None:
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
