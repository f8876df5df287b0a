"""What brokers ask of clients reaches the member it is for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.client.messages import Received
from kerolox.client.session import Session
from kerolox.errors import SystemFailure
from kerolox.message import names, properties, record
from kerolox.message.message import Message as Record
from kerolox.remoting.connection import Connection
from kerolox.testing import Cluster
from kerolox.wire.bodies.offsets import ConsumerStatus, ResetOffsetBody
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import clients as c
from kerolox.wire.headers import messages as m
from kerolox.wire.headers import offsets as o
from tests.client.sessions import NotedConsumer, NotedProducer, options, session_of, until

QUEUE = MessageQueue("broker-a", 2, "orders")


class Known:
    """A session with members, and the connection by which its broker knows it."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self.session = session
        self.connection = connection
        self.producer = NotedProducer()
        self.consumer = NotedConsumer("TBW102")


@pytest.fixture
async def known(cluster: Cluster) -> AsyncIterator[Known]:
    async with session_of(options(cluster, namespace="ns")) as session:
        session.add_producer("starter", NotedProducer())
        session.routes.watch("TBW102")
        await session.routes.get("TBW102")
        await session.heartbeat()
        (connection,) = cluster.brokers[0].clients.producers["starter"]
        known = Known(session, connection)
        session.add_producer("payers", known.producer)
        session.add_consumer("readers", known.consumer)
        yield known


def half(group: str) -> bytes:
    return bytes(record.encode(Record("orders", b"half", properties.to_bytes({names.PGROUP: group}))))


async def test_a_check_of_a_transaction_goes_to_the_producer_of_its_group(known: Known, cluster: Cluster) -> None:
    question = m.CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9, transaction_id="T1")

    assert known.connection.tell(question, half("payers"))

    await until(lambda: known.producer.checks)
    (check,) = known.producer.checks
    assert check.address == cluster.brokers[0].address
    assert (check.tran_state_table_offset, check.commit_log_offset, check.transaction_id) == (7, 9, "T1")
    assert check.record.body == b"half"


async def test_a_check_for_a_stranger_is_refused(known: Known) -> None:
    with pytest.raises(SystemFailure, match="strangers"):
        await known.connection.call(
            m.CheckTransactionState(tran_state_table_offset=7, commit_log_offset=9), half("strangers")
        )


async def test_a_changed_group_has_consumers_rebalance(known: Known) -> None:
    assert known.connection.tell(c.NotifyConsumerIdsChanged(consumer_group="readers"))

    await until(lambda: known.consumer.rebalanced)


async def test_offsets_are_reset(known: Known) -> None:
    reset = o.ResetConsumerClientOffset(topic="orders", group="readers", timestamp=-1, is_force=True)

    assert known.connection.tell(reset, ResetOffsetBody({QUEUE: 5}).encode())

    await until(lambda: known.consumer.resets)
    assert known.consumer.resets == [("orders", {QUEUE: 5})]


async def test_offsets_in_memory_are_shown(known: Known) -> None:
    known.consumer.offsets = {QUEUE: 5, MessageQueue("broker-a", 0, "others"): 1}

    reply = await known.connection.call(o.GetConsumerStatusFromClient(topic="orders", group="readers"))

    assert ConsumerStatus.decode(reply.body).message_queue_table == {QUEUE: 5}


async def test_running_info_is_the_member_s(known: Known) -> None:
    ask = c.GetConsumerRunningInfo(consumer_group="readers", client_id=known.session.client_id, jstack_enable=True)

    assert (await known.connection.call(ask)).body == b'{"properties":{"stacks":"True"}}'


async def test_one_message_is_consumed_on_demand(known: Known) -> None:
    body = bytes(record.encode(Record("ns%orders", b"again", queue_id=2)))
    ask = c.ConsumeMessageDirectly(consumer_group="readers", broker_name="broker-a")

    reply = await known.connection.call(ask, body)

    assert b'"consumeResult":"CR_SUCCESS"' in reply.body
    (message,) = known.consumer.consumed
    assert (message.topic, message.queue) == ("orders", MessageQueue("broker-a", 2, "ns%orders"))


async def test_what_is_asked_of_a_group_that_is_not_here_is_refused(known: Known) -> None:
    with pytest.raises(SystemFailure, match="strangers"):
        await known.connection.call(c.GetConsumerRunningInfo(consumer_group="strangers", client_id="c"))


async def test_a_reply_wakes_who_waits_for_it(known: Known) -> None:
    waiting: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
    known.session.replies["C1"] = waiting
    pushed = m.PushReplyMessage(
        producer_group="g",
        topic="DefaultCluster_REPLY_TOPIC",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=3,
        properties=properties.to_bytes({names.CORRELATION_ID: "C1"}).decode(),
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=2,
    )

    await known.connection.call(pushed, b"reply")
    await known.connection.call(pushed, b"the same again, which nobody waits for")

    message = await waiting
    assert (message.body, message.flag, message.store_host) == (b"reply", 3, "127.0.0.1:2")
    assert names.ARRIVE_TIME in message.properties
