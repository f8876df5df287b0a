"""Half messages, commits and rollbacks over a real socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.errors import IllegalOperation, InvalidParameter
from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from kerolox.broker.transactions.half_queue import append_of, discarded
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, SystemFailure
from kerolox.message.records.record import encode, stamp
from kerolox.runtime.clock import ManualClock
from kerolox.store import message_lookup
from kerolox.store.index import index_file
from kerolox.store.index.key_index import KeySearch
from kerolox.wire.headers.broker import ResumeCheckHalfMessage
from kerolox.wire.headers.messages import EndTransaction
from tests.broker.brokers import BrokerFixture, running, sending
from tests.broker.transactions.producers import COMMIT, GROUP, ROLLBACK, Producer, ending, half, producing, until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store", clock) as started:
        yield started


@pytest.fixture
async def producer(broker: BrokerFixture) -> AsyncIterator[Producer]:
    async with producing(broker) as started:
        yield started


async def test_a_half_message_is_invisible_to_consumers(broker: BrokerFixture, producer: Producer) -> None:
    first = await broker.call(half(key="K0"), b"zero")
    second = await broker.call(half(key="K1", TAGS="blue"), b"one")

    assert (first.fields.queue_offset, second.fields.queue_offset) == (0, 1)
    assert (second.fields.queue_id, second.fields.transaction_id) == (1, "K1")
    assert await broker.messages("orders", 1) == []
    stored = (await broker.messages(HALF_TOPIC))[1]
    assert (stored.body, stored.sys_flag, stored.queue_id) == (b"one", 0, 0)
    assert stored.parsed == {
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "UNIQ_KEY": "K1",
        "TAGS": "blue",
        "CLUSTER": "DefaultCluster",
        "__transactionId__": "K1",
        "REAL_TOPIC": "orders",
        "REAL_QID": "1",
    }


async def test_a_message_is_committed_to_its_queue(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    offsets = await producer.prepare(half())

    await clock.advance(1)
    await producer.end(offsets, COMMIT)

    (message,) = await broker.messages("orders", 1)
    (half_message,) = await broker.messages(HALF_TOPIC)
    assert (message.body, message.sys_flag, message.prepared_transaction_offset) == (b"body", COMMIT, offsets[1])
    assert (message.born_timestamp, message.born_host) == (half_message.born_timestamp, half_message.born_host)
    assert message.store_timestamp == half_message.store_timestamp + 1000
    assert message.parsed == {
        name: half_message.parsed[name] for name in half_message.parsed if not name.startswith("REAL_")
    }


async def test_a_message_is_counted_under_the_topic_in_which_it_is_stored(
    broker: BrokerFixture, producer: Producer
) -> None:
    await broker.send("orders", b"plain", 1)
    rates = broker.broker.statistics
    before = rates.user_puts

    first, second = [await producer.prepare(half(key=key)) for key in ("K1", "K2")]
    assert rates.user_puts == before
    await producer.end(second, ROLLBACK)
    await producer.end(first, COMMIT)

    assert rates.user_puts == before + 1


async def test_ops_are_written_together_after_the_interval(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    places = [await producer.prepare(half(key=f"K{number}")) for number in range(3)]
    await producer.end(places[2], COMMIT)
    await producer.end(places[0], ROLLBACK)
    assert await broker.messages(OP_TOPIC) == []

    await clock.advance(3)
    await until(lambda: broker.broker.store.reader.max_offset(OP_TOPIC, 0) == 1)

    (op,) = await broker.messages(OP_TOPIC)
    assert (op.body, op.properties) == (b"2,0,", b"WAIT\x01true\x02TAGS\x01d\x02")
    assert [message.get("UNIQ_KEY") for message in await broker.messages("orders", 1)] == ["K2"]


async def test_an_end_without_commit_or_rollback_is_answered_and_changes_nothing(
    broker: BrokerFixture, producer: Producer
) -> None:
    offsets = await producer.prepare(half())

    for is_check in (False, True):
        assert (await broker.call(ending(offsets, 0, is_check=is_check))).code == ResponseCode.SUCCESS
        for decision in (4, 99):
            with pytest.raises(InvalidParameter, match=f"commitOrRollback {decision} is not 0"):
                await broker.call(ending(offsets, decision, is_check=is_check))

    assert len(broker.broker.transactions.op_queue) == 0
    await producer.end(offsets, COMMIT)
    assert len(await broker.messages("orders", 1)) == 1


async def test_an_end_that_does_not_match_its_half_message_is_refused(
    broker: BrokerFixture, producer: Producer
) -> None:
    queue_offset, physical_offset = await producer.prepare(half())
    other = await broker.send("orders", b"plain", 1, PGROUP=GROUP)
    assert other.queue_offset is not None
    (plain,) = await broker.messages("orders", 1)

    async def refused(request: EndTransaction) -> str:
        with pytest.raises(SystemFailure) as error:
            await broker.call(request)
        return error.value.remark or ""

    for decision in (COMMIT, ROLLBACK):
        assert await refused(ending((0, physical_offset), decision, group="x")) == "The producer group wrong"
        wrong = await refused(ending((queue_offset + 1, physical_offset), decision))
        assert wrong == "The transaction state table offset wrong"
        missing = "Find prepared transaction message failed"
        for offsets in ((0, physical_offset + 1), (0, 2**62), (0, -1), (other.queue_offset, plain.physical_offset)):
            assert await refused(ending(offsets, decision)) == missing
    assert len(await broker.messages("orders", 1)) == 1
    assert len(broker.broker.transactions.op_queue) == 0


async def test_a_body_that_looks_like_a_half_message_is_not_taken_for_one(
    broker: BrokerFixture, producer: Producer
) -> None:
    await producer.prepare(half())
    (real,) = await broker.messages(HALF_TOPIC)
    outer = encode(real, 1000)
    start = broker.broker.store.log.end_offset
    forged = bytearray(encode(real, 1000))
    inner_at = start + len(outer) - len(real.properties) - 2 - len(HALF_TOPIC) - 1 - len(real.body)
    stamp(forged, 0, inner_at, 0)
    await producer.prepare(half(), bytes(forged))
    assert broker.broker.store.log.read(inner_at, len(forged)) == bytes(forged)

    with pytest.raises(SystemFailure):
        await producer.end((0, inner_at), COMMIT)


async def test_a_commit_after_the_immunity_time_is_refused(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    offsets = await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="10"))
    await clock.advance(10.001)

    for decision in (COMMIT, ROLLBACK):
        with pytest.raises(IllegalOperation):
            await producer.end(offsets, decision)
    await producer.end(offsets, COMMIT, is_check=True)

    assert len(await broker.messages("orders", 1)) == 1


async def test_an_immunity_time_below_the_timeout_is_raised_to_it(producer: Producer, clock: ManualClock) -> None:
    offsets = await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="1"))
    await clock.advance(6)

    await producer.end(offsets, ROLLBACK)


async def test_transactions_are_refused_if_configured(tmp_path: Path) -> None:
    async with running(tmp_path, rejectTransactionMessage="true") as broker, producing(broker) as producer:
        with pytest.raises(NoPermission, match="sending transaction message is forbidden"):
            await producer.prepare(half())
        await broker.send("orders", b"plain")
        with pytest.raises(NoPermission):
            await producer.prepare(half())


async def test_a_message_sent_back_for_retry_is_not_a_half_message(broker: BrokerFixture) -> None:
    """Clients before 4.6.1 send it back with all its original properties."""
    request = sending("orders", 1)
    request.reconsume_times = 1
    request.properties = "TRAN_MSG\x01true\x02DELAY\x013\x02"

    await broker.call(request, b"again")

    assert await broker.messages(HALF_TOPIC) == []
    assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 2)) == 1


async def test_a_committed_message_with_a_delay_is_delayed(broker: BrokerFixture, producer: Producer) -> None:
    offsets = await producer.prepare(half(DELAY="3"))
    assert len(await broker.messages(HALF_TOPIC)) == 1

    await producer.end(offsets, COMMIT)

    assert await broker.messages("orders", 1) == []
    (waiting,) = await broker.messages("SCHEDULE_TOPIC_XXXX", 2)
    assert (waiting.get("REAL_TOPIC"), waiting.get("REAL_QID")) == ("orders", "1")


async def test_a_repeated_commit_stores_one_message(broker: BrokerFixture, producer: Producer) -> None:
    offsets = await producer.prepare(half())

    await asyncio.gather(*(producer.end(offsets, COMMIT) for _ in range(5)))
    await producer.end(offsets, COMMIT)

    assert len(await broker.messages("orders", 1)) == 1
    assert len(broker.broker.transactions.op_queue) == 1


async def test_a_repeated_commit_after_a_check_stores_one_message(broker: BrokerFixture, producer: Producer) -> None:
    offsets = await producer.prepare(half())

    await asyncio.gather(*(producer.end(offsets, COMMIT, is_check=True) for _ in range(5)))
    await producer.end(offsets, COMMIT, is_check=True)

    assert len(await broker.messages("orders", 1)) == 1
    assert len(broker.broker.transactions.op_queue) == 1


@pytest.mark.parametrize("step", ["commit", "check"])
async def test_a_long_search_for_a_committed_message_does_not_block_other_requests(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A client can create many index entries with the same hash, which the search has to skip."""
    monkeypatch.setattr(index_file, "_BLOCK_ENTRIES", 1)
    monkeypatch.setattr(message_lookup, "_STEPS_MAX", 1)
    async with running(tmp_path, clock, maxHashSlotNum="1") as broker, producing(broker) as producer:
        for number in range(50):
            await broker.send("orders", b"x", KEYS=f"other-{number}")
        offsets = await producer.prepare(half(born=clock.millis()))
        await clock.advance(10)
        turns: list[int] = []
        turn = 0

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            asyncio.get_running_loop().call_soon(next_turn)

        step_of = KeySearch.step

        def watched(search: KeySearch) -> bool:
            turns.append(turn)
            return step_of(search)

        monkeypatch.setattr(KeySearch, "step", watched)
        next_turn()
        if step == "commit":
            await producer.end(offsets, COMMIT, is_check=True)
            assert len(await broker.messages("orders", 1)) == 1
        else:
            await broker.broker.transactions.checker.check()
            await until(lambda: len(producer.checks) == 1)

        assert len(set(turns)) >= 50


async def test_a_unique_key_may_be_used_in_two_transactions(broker: BrokerFixture, producer: Producer) -> None:
    """Java clients reuse the unique key of a message object that is sent again."""
    for born in (1_700_000_000_000, 1_700_000_000_001):
        offsets = await producer.prepare(half(born=born))
        await producer.end(offsets, COMMIT, is_check=True)

    assert len(await broker.messages("orders", 1)) == 2


async def test_a_discarded_half_message_can_be_resumed(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(TRANSACTION_CHECK_TIMES="15"))
    (half_message,) = await broker.messages(HALF_TOPIC)
    broker.broker.store.append([append_of(discarded(half_message))])
    (moved,) = await broker.messages(CHECK_MAX_TOPIC)

    await broker.call(ResumeCheckHalfMessage(topic=CHECK_MAX_TOPIC, msg_id=moved.offset_id))

    resumed = (await broker.messages(HALF_TOPIC))[1]
    assert (resumed.body, resumed.get("TRANSACTION_CHECK_TIMES")) == (half_message.body, "0")
    assert resumed.get("REAL_TOPIC") == "orders"


async def test_only_half_messages_can_be_resumed(broker: BrokerFixture) -> None:
    sent = await broker.send("orders", b"plain")
    for message_id in (sent.msg_id, "7F00000100002A9F00000000FFFFFFFF", "no id", None):
        with pytest.raises(SystemFailure, match="putting message back"):
            await broker.call(ResumeCheckHalfMessage(topic="orders", msg_id=message_id))
