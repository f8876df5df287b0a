"""Transactional messages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kerolox.client.callbacks import Callback
from kerolox.client.errors import SendFailed
from kerolox.client.hooks import EndedTransaction, MessageType, Sending
from kerolox.client.messages import Message, Received, SendStatus
from kerolox.client.producer.transactions import Decision, TransactionProducer
from kerolox.codes import ResponseCode
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal
from kerolox.testing import Cluster
from tests.client.brokers import TOPIC, ScriptedCluster
from tests.client.producer.producing import stored, stored_bodies
from tests.client.sessions import until


def unknown(message: Received) -> Decision:
    return Decision.UNKNOWN


@asynccontextmanager
async def transaction_producer(
    cluster: Cluster | ScriptedCluster, check: Callback[Received, Decision] = unknown, **keywords: object
) -> AsyncIterator[TransactionProducer]:
    given = {"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1", **keywords}
    async with TransactionProducer("payers", check, **given) as producer:  # type: ignore[arg-type]
        yield producer


async def test_a_committed_message_is_visible(cluster: Cluster) -> None:
    seen: list[list[bytes]] = []

    async def execute(message: Message) -> Decision:
        seen.append(stored_bodies(cluster, "orders"))
        return Decision.COMMIT

    async with transaction_producer(cluster) as producer:
        result = await producer.send_in_transaction(Message("orders", b"paid", tag="t"), execute)
        await until(lambda: stored_bodies(cluster, "orders"))

    assert seen == [[]]
    assert (result.decision, result.sent.status, result.error) == (Decision.COMMIT, SendStatus.OK, None)
    (record,) = stored(cluster.brokers[0], "orders")
    assert (record.body, record.tags, record.message_id) == (b"paid", "t", result.sent.message_id)


async def test_a_rolled_back_message_is_never_visible(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a") as a, transaction_producer(scripted) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"not paid"), lambda message: Decision.ROLLBACK)
        await until(lambda: a.ended)

    (ended,) = a.ended
    (sent,) = a.sent
    assert result.decision is Decision.ROLLBACK
    assert (ended.commit_or_rollback, ended.from_transaction_check, ended.producer_group) == (12, False, "payers")
    assert (ended.msg_id, ended.transaction_id) == (result.sent.message_id, result.sent.message_id)
    assert (ended.tran_state_table_offset, ended.commit_log_offset) == (0, 0)
    assert sent.sys_flag & 0xC == 0x4
    assert "TRAN_MSG\x01true\x02PGROUP\x01payers\x02" in (sent.properties or "")


async def test_an_exception_in_the_local_transaction_sends_unknown(scripted: ScriptedCluster) -> None:
    def fails(message: Message) -> Decision:
        raise ValueError("the database is away")

    async with scripted.broker("a") as a, transaction_producer(scripted) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), fails)
        await until(lambda: a.ended)

    assert result.decision is Decision.UNKNOWN
    assert isinstance(result.error, ValueError)
    assert a.ended[0].commit_or_rollback == 0


async def test_a_result_other_than_a_decision_is_an_error(scripted: ScriptedCluster) -> None:
    async with scripted.broker("a"), transaction_producer(scripted) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), lambda message: True)  # type: ignore[arg-type,return-value]

    assert isinstance(result.error, TypeError)


async def test_a_half_message_with_a_status_other_than_ok_is_rolled_back(scripted: ScriptedCluster) -> None:
    executed: list[Message] = []

    def execute(message: Message) -> Decision:
        executed.append(message)
        return Decision.COMMIT

    async with scripted.broker("a", ResponseCode.FLUSH_DISK_TIMEOUT) as a, transaction_producer(scripted) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), execute)
        await until(lambda: a.ended)

    assert result.decision is Decision.ROLLBACK
    assert executed == []


async def test_the_local_transaction_does_not_run_if_the_send_fails(scripted: ScriptedCluster) -> None:
    executed: list[Message] = []
    async with scripted.broker("a", ResponseCode.MESSAGE_ILLEGAL), transaction_producer(scripted) as producer:
        with pytest.raises(SendFailed):
            await producer.send_in_transaction(Message(TOPIC, b"body"), executed.append)  # type: ignore[arg-type]

    assert executed == []


async def test_a_delayed_message_in_a_transaction_is_refused(scripted: ScriptedCluster) -> None:
    async with transaction_producer(scripted) as producer:
        with pytest.raises(MessageIllegal, match="delayed"):
            await producer.send_in_transaction(Message(TOPIC, b"body", delay_level=1), lambda message: Decision.COMMIT)


async def test_a_broker_without_the_decision_calls_check(tmp_path: Path) -> None:
    checked: asyncio.Queue[Received] = asyncio.Queue()

    async def check(message: Received) -> Decision:
        checked.put_nowait(message)
        return Decision.COMMIT

    settings = {"transactionCheckInterval": "100", "transactionTimeOut": "0"}
    async with (
        Cluster(tmp_path, settings=settings) as cluster,
        transaction_producer(cluster, check, namespace="ns") as producer,
    ):
        result = await producer.send_in_transaction(
            Message("orders", b"paid", keys=("k",)), lambda message: Decision.UNKNOWN
        )

        async with asyncio.timeout(20):
            message = await checked.get()
        await until(lambda: stored(cluster.brokers[0], "ns%orders"))

    assert (message.topic, message.body, message.keys) == ("orders", b"paid", ["k"])
    assert message.properties[property_names.UNIQ_KEY] == result.sent.message_id


async def test_brokers_know_a_transaction_producer_before_its_first_send(cluster: Cluster) -> None:
    async with transaction_producer(cluster) as producer:
        await producer.queues("TBW102")

        await until(lambda: "payers" in cluster.brokers[0].clients.producers)


class TransactionHook:
    def __init__(self) -> None:
        self.kinds: list[MessageType] = []
        self.ended: list[EndedTransaction] = []

    def before_send(self, sending: Sending) -> None:
        self.kinds.append(sending.message_type)

    def after_send(self, sending: Sending) -> None: ...

    def after_end(self, ended: EndedTransaction) -> None:
        self.ended.append(ended)


async def test_hooks_are_called_at_the_end_of_a_transaction(scripted: ScriptedCluster) -> None:
    hook = TransactionHook()
    async with scripted.broker("a") as a, transaction_producer(scripted, hooks=[hook], namespace="ns") as producer:
        await scripted.list_broker("a", a.server.address, "ns%orders", "TBW102")
        message = Message(TOPIC, b"body", tag="t", keys=("k",))
        result = await producer.send_in_transaction(message, lambda message: Decision.COMMIT)
        address = a.server.address

    (ended,) = hook.ended
    assert hook.kinds == [MessageType.TRANSACTION_HALF]
    assert (ended.topic, ended.tags, ended.keys, ended.state) == (TOPIC, "t", ("k",), "COMMIT_MESSAGE")
    assert (ended.message_id, ended.is_from_check) == (result.sent.message_id, False)
    assert ended.broker_address == address
