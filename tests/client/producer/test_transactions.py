"""Messages that are seen only if the transaction they belong to came to a good end."""

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
from kerolox.message import names
from kerolox.message.errors import MessageIllegal
from kerolox.testing import Cluster
from tests.client.brokers import TOPIC, Stage
from tests.client.producer.producing import stored, stored_bodies
from tests.client.sessions import until


def unknown(message: Received) -> Decision:
    return Decision.UNKNOWN


@asynccontextmanager
async def transacting(
    cluster: Cluster | Stage, check: Callback[Received, Decision] = unknown, **keywords: object
) -> AsyncIterator[TransactionProducer]:
    given = {"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1", **keywords}
    async with TransactionProducer("payers", check, **given) as producer:  # type: ignore[arg-type]
        yield producer


async def test_a_message_is_seen_when_its_transaction_commits(cluster: Cluster) -> None:
    seen: list[list[bytes]] = []

    async def execute(message: Message) -> Decision:
        seen.append(stored_bodies(cluster, "orders"))
        return Decision.COMMIT

    async with transacting(cluster) as producer:
        result = await producer.send_in_transaction(Message("orders", b"paid", tag="t"), execute)
        await until(lambda: stored_bodies(cluster, "orders"))

    assert seen == [[]]
    assert (result.decision, result.sent.status, result.error) == (Decision.COMMIT, SendStatus.OK, None)
    (record,) = stored(cluster.brokers[0], "orders")
    assert (record.body, record.tags, record.message_id) == (b"paid", "t", result.sent.message_id)


async def test_a_message_is_never_seen_when_its_transaction_rolls_back(stage: Stage) -> None:
    async with stage.broker("a") as a, transacting(stage) as producer:
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


async def test_what_the_local_transaction_raises_leaves_the_decision_open(stage: Stage) -> None:
    def fails(message: Message) -> Decision:
        raise ValueError("the database is away")

    async with stage.broker("a") as a, transacting(stage) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), fails)
        await until(lambda: a.ended)

    assert result.decision is Decision.UNKNOWN
    assert isinstance(result.error, ValueError)
    assert a.ended[0].commit_or_rollback == 0


async def test_what_is_no_decision_leaves_it_open(stage: Stage) -> None:
    async with stage.broker("a"), transacting(stage) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), lambda message: True)  # type: ignore[arg-type,return-value]

    assert isinstance(result.error, TypeError)


async def test_a_half_message_that_is_not_safe_is_taken_back(stage: Stage) -> None:
    executed: list[Message] = []

    def execute(message: Message) -> Decision:
        executed.append(message)
        return Decision.COMMIT

    async with stage.broker("a", ResponseCode.FLUSH_DISK_TIMEOUT) as a, transacting(stage) as producer:
        result = await producer.send_in_transaction(Message(TOPIC, b"body"), execute)
        await until(lambda: a.ended)

    assert result.decision is Decision.ROLLBACK
    assert executed == []


async def test_nothing_is_run_when_the_message_could_not_be_sent(stage: Stage) -> None:
    executed: list[Message] = []
    async with stage.broker("a", ResponseCode.MESSAGE_ILLEGAL), transacting(stage) as producer:
        with pytest.raises(SendFailed):
            await producer.send_in_transaction(Message(TOPIC, b"body"), executed.append)  # type: ignore[arg-type]

    assert executed == []


async def test_a_delayed_message_is_no_transaction(stage: Stage) -> None:
    async with transacting(stage) as producer:
        with pytest.raises(MessageIllegal, match="delayed"):
            await producer.send_in_transaction(Message(TOPIC, b"body", delay_level=1), lambda message: Decision.COMMIT)


async def test_a_broker_that_never_got_the_decision_asks_for_it(tmp_path: Path) -> None:
    asked: asyncio.Queue[Received] = asyncio.Queue()

    async def check(message: Received) -> Decision:
        asked.put_nowait(message)
        return Decision.COMMIT

    settings = {"transactionCheckInterval": "100", "transactionTimeOut": "0"}
    async with Cluster(tmp_path, settings=settings) as cluster, transacting(cluster, check, namespace="ns") as producer:
        result = await producer.send_in_transaction(
            Message("orders", b"paid", keys=("k",)), lambda message: Decision.UNKNOWN
        )

        async with asyncio.timeout(20):
            message = await asked.get()
        await until(lambda: stored(cluster.brokers[0], "ns%orders"))

    assert (message.topic, message.body, message.keys) == ("orders", b"paid", ["k"])
    assert message.properties[names.UNIQ_KEY] == result.sent.message_id


async def test_brokers_know_the_group_of_a_producer_before_it_sends_anything_to_them(cluster: Cluster) -> None:
    async with transacting(cluster) as producer:
        await producer.queues("TBW102")

        await until(lambda: "payers" in cluster.brokers[0].clients.producers)


class Ends:
    def __init__(self) -> None:
        self.kinds: list[MessageType] = []
        self.ended: list[EndedTransaction] = []

    def before_send(self, sending: Sending) -> None:
        self.kinds.append(sending.message_type)

    def after_send(self, sending: Sending) -> None: ...

    def after_end(self, ended: EndedTransaction) -> None:
        self.ended.append(ended)


async def test_hooks_are_told_how_transactions_end(stage: Stage) -> None:
    hook = Ends()
    async with stage.broker("a") as a, transacting(stage, hooks=[hook], namespace="ns") as producer:
        await stage.list_broker("a", a.server.address, "ns%orders", "TBW102")
        message = Message(TOPIC, b"body", tag="t", keys=("k",))
        result = await producer.send_in_transaction(message, lambda message: Decision.COMMIT)
        address = a.server.address

    (ended,) = hook.ended
    assert hook.kinds == [MessageType.TRANSACTION_HALF]
    assert (ended.topic, ended.tags, ended.keys, ended.state) == (TOPIC, "t", ("k",), "COMMIT_MESSAGE")
    assert (ended.message_id, ended.is_from_check) == (result.sent.message_id, False)
    assert ended.broker_address == address
