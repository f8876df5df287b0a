"""Sending failed messages back."""

from collections.abc import AsyncIterator

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.handle.send_back import SendBack
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.messages import Received
from kerolox.client.session.session import Session
from kerolox.message.compression import compress
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.consumer.consumers import Sender, sender
from tests.client.sessions import RecordingConsumer, options, session_of


@pytest.fixture
async def brokers(cluster: Cluster) -> AsyncIterator[Sender]:
    async with sender(cluster) as brokers:
        yield brokers


@pytest.fixture
async def session(cluster: Cluster, brokers: Sender) -> AsyncIterator[Session]:
    """A session whose group is registered, so that its retry topic exists."""
    await brokers.send("orders", b"hello", given={"UNIQ_KEY": "ID1", "mine": "kept"})
    async with session_of(options(cluster)) as session:
        session.add_consumer("group", RecordingConsumer("orders"))
        await session.routes.get("orders")
        await session.heartbeat()
        yield session


async def pulled(cluster: Cluster, topic: str) -> Received:
    async with PullConsumer("reader", consume_from=ConsumeFrom.FIRST_OFFSET, options=options(cluster)) as pull:
        await pull.assign([MessageQueue("broker-a", 0, topic)])
        return await anext(pull)


async def test_a_sent_back_message_is_delayed(cluster: Cluster, session: Session, brokers: Sender) -> None:
    message = await pulled(cluster, "orders")

    assert await SendBack(session, "group", 16).send_back(message)

    # The first retry has delay level 3: ten seconds.
    assert await brokers.max_offset("SCHEDULE_TOPIC_XXXX", 2) == 1


async def test_a_copy_is_sent_if_the_broker_refuses_the_message(
    cluster: Cluster, session: Session, brokers: Sender
) -> None:
    message = await pulled(cluster, "orders")
    # The broker has no message at this physical offset.
    message.record.physical_offset += 1
    message.record.properties += b"TRAN_MSG\x01true\x02"
    message.reconsume_times = 16

    assert await SendBack(session, "group", 16).send_back(message)

    copy = await pulled(cluster, "%DLQ%group")
    assert copy.body == b"hello"
    assert copy.properties["mine"] == "kept"
    assert copy.properties["RETRY_TOPIC"] == "orders"
    assert copy.properties["ORIGIN_MESSAGE_ID"] == "ID1"
    assert "TRAN_MSG" not in copy.properties
    assert copy.reconsume_times == 17


async def test_the_copy_keeps_the_compressed_body(cluster: Cluster, session: Session, brokers: Sender) -> None:
    message = await pulled(cluster, "orders")
    message.record.body, message.record.sys_flag = compress(b"long" * 100), 0x301
    message.reconsume_times = 16

    assert await SendBack(session, "group", 16).send_copy(message)

    assert (await pulled(cluster, "%DLQ%group")).body == b"long" * 100


async def test_sending_back_returns_false_if_no_broker_accepts(
    cluster: Cluster, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    message = await pulled(cluster, "orders")
    message.queue = MessageQueue("broker-x", 0, "orders")

    assert not await SendBack(session, "stranger", 16).send_back(message)

    assert "broker-x" in caplog.text
    assert "could not be sent to %RETRY%stranger" in caplog.text
