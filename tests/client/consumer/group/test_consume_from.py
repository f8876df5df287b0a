"""The start offset of a queue."""

from datetime import UTC, datetime

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom, max_offset, start_offset
from kerolox.client.consumer.group.offset_store import BrokerOffsetStore
from kerolox.errors import ConnectFailed, KeroloxError, QueryNotFound, SystemBusy
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound, QueryConsumerOffset, SearchOffset
from tests.client.consumer.fake_brokers import FakeBrokers

QUEUE, RETRY = MessageQueue("broker-a", 0, "orders"), MessageQueue("broker-a", 0, "%RETRY%group")
WHEN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture
def brokers() -> FakeBrokers:
    brokers = FakeBrokers()
    brokers.answers[QueryConsumerOffset] = lambda request: QueryNotFound("never heard of it")
    brokers.answers[GetMaxOffset] = lambda request: OffsetFound(offset=100)
    brokers.answers[SearchOffset] = lambda request: OffsetFound(offset=request.timestamp // 100_000_000_000)
    return brokers


@pytest.mark.parametrize("begin", ConsumeFrom)
async def test_a_committed_offset_is_used(brokers: FakeBrokers, begin: ConsumeFrom) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: OffsetFound(offset=42)

    assert await start_offset(brokers, BrokerOffsetStore(brokers, "group"), QUEUE, begin, WHEN) == 42


@pytest.mark.parametrize(
    ("begin", "queue", "offset"),
    [
        (ConsumeFrom.LAST_OFFSET, QUEUE, 100),
        (ConsumeFrom.LAST_OFFSET, RETRY, 0),
        (ConsumeFrom.FIRST_OFFSET, QUEUE, 0),
        (ConsumeFrom.FIRST_OFFSET, RETRY, 0),
        (ConsumeFrom.TIMESTAMP, QUEUE, 17),
        (ConsumeFrom.TIMESTAMP, RETRY, 100),
    ],
)
async def test_a_new_group_begins_at_consume_from(
    brokers: FakeBrokers, begin: ConsumeFrom, queue: MessageQueue, offset: int
) -> None:
    assert await start_offset(brokers, BrokerOffsetStore(brokers, "group"), queue, begin, WHEN) == offset


async def test_a_failed_query_is_not_taken_for_a_new_group(brokers: FakeBrokers) -> None:
    brokers.answers[QueryConsumerOffset] = lambda request: SystemBusy("later")

    with pytest.raises(SystemBusy):
        await start_offset(brokers, BrokerOffsetStore(brokers, "group"), QUEUE, ConsumeFrom.FIRST_OFFSET)


async def test_an_invalid_offset_is_refused(brokers: FakeBrokers) -> None:
    brokers.answers[GetMaxOffset] = lambda request: OffsetFound(offset=-1)
    with pytest.raises(KeroloxError, match="offset -1"):
        await max_offset(brokers, QUEUE)

    brokers.addresses.clear()
    with pytest.raises(ConnectFailed):
        await max_offset(brokers, QUEUE)
