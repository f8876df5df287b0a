"""Requests of brokers reach the producer or consumer of their group."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.client.messages import Received
from kerolox.client.session.session import Session
from kerolox.errors import SystemFailure
from kerolox.message import properties, property_names
from kerolox.message.message import Message as Record
from kerolox.message.records import record
from kerolox.remoting.connection import Connection
from kerolox.testing import Cluster
from kerolox.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import clients as c
from kerolox.wire.headers import messages as m
from kerolox.wire.headers import offsets as o
from tests.client.sessions import RecordingConsumer, RecordingProducer, options, session_of, until

QUEUE = MessageQueue("broker-a", 2, "orders")


class RegisteredSession:
    """A session with members, and the broker's side of its connection."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self.session = session
        self.connection = connection
        self.producer = RecordingProducer()
        self.consumer = RecordingConsumer("TBW102")


@pytest.fixture
async def registered(cluster: Cluster) -> AsyncIterator[RegisteredSession]:
    async with session_of(options(cluster, namespace="ns")) as session:
        session.add_producer("starter", RecordingProducer())
        session.routes.watch("TBW102")
        await session.routes.get("TBW102")
        await session.heartbeat()
        (connection,) = cluster.brokers[0].clients.producers["starter"]
        registered = RegisteredSession(session, connection)
        session.add_producer("payers", registered.producer)
        session.add_consumer("readers", registered.consumer)
        yield registered


def half(group: str) -> bytes:
    return bytes(record.encode(Record("orders", b"half", properties.to_bytes({property_names.PGROUP: group}))))


async def test_a_transaction_check_goes_to_the_producer_of_its_group(
    registered: RegisteredSession, cluster: Cluster
) -> None:
    question = m.CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9, transaction_id="T1")

    assert registered.connection.send_oneway(question, half("payers"))

    await until(lambda: registered.producer.checks)
    (check,) = registered.producer.checks
    assert check.address == cluster.brokers[0].address
    assert (check.tran_state_table_offset, check.commit_log_offset, check.transaction_id) == (7, 9, "T1")
    assert check.record.body == b"half"


async def test_a_transaction_check_for_an_unknown_group_is_refused(registered: RegisteredSession) -> None:
    with pytest.raises(SystemFailure, match="strangers"):
        await registered.connection.call(
            m.CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9), half("strangers")
        )


async def test_consumers_rebalance_when_the_group_changes(registered: RegisteredSession) -> None:
    assert registered.connection.send_oneway(c.NotifyConsumerIdsChanged(consumer_group="readers"))

    await until(lambda: registered.consumer.rebalanced)


async def test_a_reset_request_resets_the_offsets_of_the_consumer(registered: RegisteredSession) -> None:
    reset = o.ResetConsumerClientOffset(topic="orders", group="readers", timestamp=-1, is_force=True)

    assert registered.connection.send_oneway(reset, ResetOffsetBody({QUEUE: 5}).encode())

    await until(lambda: registered.consumer.resets)
    assert registered.consumer.resets == [("orders", {QUEUE: 5})]


async def test_consumer_status_returns_the_offsets_in_memory(registered: RegisteredSession) -> None:
    registered.consumer.offsets = {QUEUE: 5, MessageQueue("broker-a", 0, "others"): 1}

    reply = await registered.connection.call(o.GetConsumerStatusFromClient(topic="orders", group="readers"))

    assert ConsumerStatus.decode(reply.body).message_queue_table == {QUEUE: 5}


async def test_running_info_comes_from_the_consumer(registered: RegisteredSession) -> None:
    ask = c.GetConsumerRunningInfo(consumer_group="readers", client_id=registered.session.client_id, jstack_enable=True)

    assert (await registered.connection.call(ask)).body == b'{"properties":{"stacks":"True"}}'


async def test_consume_message_directly_reaches_the_consumer(registered: RegisteredSession) -> None:
    body = bytes(record.encode(Record("ns%orders", b"again", queue_id=2)))
    ask = c.ConsumeMessageDirectly(consumer_group="readers", broker_name="broker-a")

    reply = await registered.connection.call(ask, body)

    assert b'"consumeResult":"CR_SUCCESS"' in reply.body
    (message,) = registered.consumer.consumed
    assert (message.topic, message.queue) == ("orders", MessageQueue("broker-a", 2, "ns%orders"))


async def test_a_request_for_an_unknown_consumer_group_is_refused(registered: RegisteredSession) -> None:
    with pytest.raises(SystemFailure, match="strangers"):
        await registered.connection.call(c.GetConsumerRunningInfo(consumer_group="strangers", client_id="c"))


async def test_a_reply_completes_the_pending_request(registered: RegisteredSession) -> None:
    waiting: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
    registered.session.pending_replies["C1"] = waiting
    pushed = m.PushReplyMessage(
        producer_group="g",
        topic="DefaultCluster_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=3,
        properties=properties.to_bytes({property_names.CORRELATION_ID: "C1"}).decode(),
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=2,
    )

    await registered.connection.call(pushed, b"reply")
    await registered.connection.call(pushed, b"a duplicate reply")

    message = await waiting
    assert (message.body, message.flag, message.store_host) == (b"reply", 3, "127.0.0.1:2")
    assert property_names.ARRIVE_TIME in message.properties
