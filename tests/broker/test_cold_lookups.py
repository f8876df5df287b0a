"""Look-ups of messages that are not in memory do not wait for the disk on the event loop."""

from __future__ import annotations

import pytest

from kerolox.broker.tables.system_topics import HALF_TOPIC, RETRY_PREFIX
from kerolox.message.ids import parse_offset_id
from kerolox.message.records.record import decode, decode_all
from kerolox.message.sysflag import COMMIT, ROLLBACK
from kerolox.wire.headers.messages import ConsumerSendMsgBack, QueryMessage, ViewMessageById
from tests.broker.brokers import BrokerFixture
from tests.broker.cold_brokers import cold_broker
from tests.broker.transactions.producers import ending, half
from tests.store.log.test_cold_reads import ColdDisk


async def fill(broker: BrokerFixture) -> None:
    for number in range(40):
        await broker.send("orders", b"%d" % number, KEYS="k")


async def test_a_message_is_viewed_by_id() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill) as broker:
        reply = await broker.call(ViewMessageById(offset=0))

        assert (decode(reply.body).body, disk.on_loop) == (b"0", 0)


async def test_messages_are_queried_by_key() -> None:
    disk = ColdDisk()
    async with cold_broker(disk, fill, maxIndexNum="8", maxHashSlotNum="4") as broker:
        reply = await broker.call(
            QueryMessage(topic="orders", key="k", max_num=40, begin_timestamp=0, end_timestamp=2**62)
        )

        assert [message.body for message in decode_all(reply.body)] == [b"%d" % number for number in range(40)]
        assert disk.on_loop == 0


async def test_a_message_is_sent_back() -> None:
    disk = ColdDisk()

    async def fill(broker: BrokerFixture) -> None:
        await broker.send("orders", b"0")
        await broker.heartbeat("group")

    async with cold_broker(disk, fill) as broker:
        await broker.call(ConsumerSendMsgBack(offset=0, group="group", delay_level=0, max_reconsume_times=3))

        assert broker.broker.store.reader.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1
        assert RETRY_PREFIX + "group" in broker.broker.topics.topics
        assert disk.on_loop == 0


@pytest.mark.parametrize(("decision", "count"), [(COMMIT, 1), (ROLLBACK, 0)])
async def test_a_transaction_is_ended(decision: int, count: int) -> None:
    disk = ColdDisk()
    offsets = (0, 0)

    async def fill(broker: BrokerFixture) -> None:
        nonlocal offsets
        sent = (await broker.call(half(), b"body")).fields
        assert sent.msg_id is not None
        assert sent.queue_offset is not None
        offsets = sent.queue_offset, parse_offset_id(sent.msg_id)[1]

    async with cold_broker(disk, fill) as broker:
        await broker.call(ending(offsets, decision))

        assert disk.on_loop == 0
        assert broker.broker.store.reader.max_offset("orders", 1) == count
        assert broker.broker.store.reader.max_offset(HALF_TOPIC, 0) == 1
