"""Lists of the entries of a consume queue."""

import pytest

from kerolox.errors import SystemFailure
from kerolox.message.tags import tags_code
from kerolox.wire.bodies.offsets import ConsumeQueueData
from kerolox.wire.headers.broker import QueryConsumeQueue
from tests.broker.brokers import BrokerFixture


def query(index: int, queue_id: int = 0, group: str | None = None) -> QueryConsumeQueue:
    return QueryConsumeQueue(topic="orders", queue_id=queue_id, index=index, count=2, consumer_group=group)


async def test_entries_are_listed_from_an_index_on(broker: BrokerFixture) -> None:
    sent = [await broker.send("orders", b"x", TAGS=f"tag{number}") for number in range(4)]

    found = ConsumeQueueData.decode((await broker.call(query(1))).body)

    assert (found.min_queue_index, found.max_queue_index) == (0, 4)
    assert [entry.tags_code for entry in found.queue_data] == [tags_code(b"tag1"), tags_code(b"tag2")]
    assert [f"{entry.physic_offset:016X}" for entry in found.queue_data] == [str(of.msg_id)[16:] for of in sent[1:3]]
    assert (found.subscription_data, found.filter_data) == (None, None)


async def test_the_subscription_of_a_group_is_included(broker: BrokerFixture) -> None:
    await broker.send("orders", b"x")
    offline = ConsumeQueueData.decode((await broker.call(query(0, group="group"))).body)
    await broker.heartbeat(consumes={"group": ["orders"]})
    online = ConsumeQueueData.decode((await broker.call(query(0, group="group"))).body)

    assert offline.filter_data == "group@orders is not online!"
    assert online.subscription_data is not None
    assert online.subscription_data.sub_string == "*"


async def test_unknown_queues_and_indexes_are_reported(broker: BrokerFixture) -> None:
    await broker.send("orders", b"x")

    beyond = await broker.call(query(1))
    assert (beyond.body, beyond.remark) == (b"", "Index 1 of 0@orders is not exist!")
    with pytest.raises(SystemFailure, match="3@orders is not exist!"):
        await broker.call(query(0, queue_id=3))
