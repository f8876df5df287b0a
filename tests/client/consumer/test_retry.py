"""Messages that go back."""

from collections.abc import AsyncIterator

import pytest

from kerolox.client.consumer.positions import ConsumeFrom
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.retry import Retries
from kerolox.client.messages import Received
from kerolox.client.session import Session
from kerolox.message.compression import compress
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import Sender, sender
from tests.client.sessions import NotedConsumer, options, session_of


@pytest.fixture
async def brokers(cluster: Cluster) -> AsyncIterator[Sender]:
    async with sender(cluster) as brokers:
        yield brokers


@pytest.fixture
async def session(cluster: Cluster, brokers: Sender) -> AsyncIterator[Session]:
    """One whose group the brokers know, so that there is somewhere to retry."""
    await brokers.send("orders", b"hello", given={"UNIQ_KEY": "ID1", "mine": "kept"})
    async with session_of(options(cluster)) as session:
        session.add_consumer("group", NotedConsumer("orders"))
        await session.routes.get("orders")
        await session.heartbeat()
        yield session


async def pulled(cluster: Cluster, topic: str) -> Received:
    async with PullConsumer("reader", consume_from=ConsumeFrom.FIRST_OFFSET, options=options(cluster)) as pull:
        await pull.assign([MessageQueue("broker-a", 0, topic)])
        return await anext(pull)


async def test_a_message_that_is_taken_back_waits_for_its_time(
    cluster: Cluster, session: Session, brokers: Sender
) -> None:
    message = await pulled(cluster, "orders")

    assert await Retries(session, "group", 16).send_back(message)

    # Its first retry is on level 3: ten seconds.
    assert await brokers.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1


async def test_a_message_that_is_not_taken_back_is_sent_again_as_a_copy(
    cluster: Cluster, session: Session, brokers: Sender
) -> None:
    message = await pulled(cluster, "orders")
    # No broker has it where it says that it lies.
    message.record.physical_offset += 1
    message.record.properties += b"TRAN_MSG\x01true\x02"
    message.reconsume_times = 16

    assert await Retries(session, "group", 16).send_back(message)

    copy = await pulled(cluster, "%DLQ%group")
    assert copy.body == b"hello"
    assert copy.properties["mine"] == "kept"
    assert copy.properties["RETRY_TOPIC"] == "orders"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == "ID1"
    assert "TRAN_MSG" not in copy.properties
    assert copy.reconsume_times == 17


async def test_a_body_is_sent_again_as_compressed_as_it_came(
    cluster: Cluster, session: Session, brokers: Sender
) -> None:
    message = await pulled(cluster, "orders")
    message.record.body, message.record.sys_flag = compress(b"long" * 100), 0x301
    message.reconsume_times = 16

    assert await Retries(session, "group", 16).send_again(message)

    assert (await pulled(cluster, "%DLQ%group")).body == b"long" * 100


async def test_when_nobody_takes_it_it_stays_here(
    cluster: Cluster, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    message = await pulled(cluster, "orders")
    message.queue = MessageQueue("broker-x", 0, "orders")

    assert not await Retries(session, "stranger", 16).send_back(message)

    assert "broker-x" in caplog.text
    assert "could not be sent to %RETRY%stranger" in caplog.text
