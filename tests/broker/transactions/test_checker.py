"""Checks of undecided half messages."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from kerolox.broker.tables.system_topics import TRANSACTION_GROUP as PROGRESS
from kerolox.message.message import Message
from kerolox.message.records.record import decode, encode
from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreFull
from kerolox.store.log.commit_log import Append
from tests.broker.brokers import BrokerFixture, running
from tests.broker.transactions.producers import COMMIT, ROLLBACK, Producer, half, producing, until

# The tests run the rounds themselves.
NO_ROUNDS = {"transactionCheckInterval": "3600000"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store", clock, **NO_ROUNDS) as started:
        yield started


@pytest.fixture
async def producer(broker: BrokerFixture) -> AsyncIterator[Producer]:
    async with producing(broker) as started:
        yield started


async def check(broker: BrokerFixture) -> None:
    """Run a round, after all ops have been written."""
    await broker.broker.transactions.op_queue.close()
    await broker.broker.transactions.checker.check()


async def wait_for_checks(producer: Producer, times: int) -> Message:
    await until(lambda: len(producer.checks) >= times)
    assert len(producer.checks) == times
    return decode(producer.checks[-1].body)


def progress(broker: BrokerFixture) -> tuple[int | None, int | None]:
    offsets = broker.broker.offsets
    return offsets.get(PROGRESS, HALF_TOPIC, 0), offsets.get(PROGRESS, OP_TOPIC, 0)


async def bodies(broker: BrokerFixture, topic: str = "orders", queue_id: int = 1) -> list[bytes]:
    return [message.body for message in await broker.messages(topic, queue_id)]


async def test_a_producer_is_asked_after_the_timeout_and_not_before(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(), b"undecided")
    await clock.advance(6)
    await check(broker)
    assert progress(broker) == (None, None)

    await clock.advance(0.001)
    await check(broker)

    message = await wait_for_checks(producer, 1)
    header = producer.checks[0].header
    (_, put_back) = await broker.messages(HALF_TOPIC)
    assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"undecided")
    assert (message.get("TRANSACTION_CHECK_TIMES"), put_back.get("TRANSACTION_CHECK_TIMES")) == ("1", "1")
    assert (header.tran_state_table_offset, header.commit_log_offset) == (1, put_back.physical_offset)
    assert (header.msg_id, header.transaction_id, header.offset_msg_id) == ("K1", "K1", put_back.offset_id)
    assert (header.broker_name, header.topic) == ("broker-a", HALF_TOPIC)
    assert progress(broker) == (1, 0)


async def test_the_answer_to_a_check_resolves_the_transaction(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    for number in range(2):
        await producer.prepare(half(key=f"K{number}"), b"%d" % number)
    await clock.advance(7)
    await check(broker)
    await wait_for_checks(producer, 2)

    last = producer.checks.pop()
    await producer.answer_check(COMMIT)
    producer.checks.append(last)
    await producer.answer_check(ROLLBACK)
    await clock.advance(60)
    await check(broker)

    assert await bodies(broker) == [b"0"]
    assert len(producer.checks) == 2
    assert progress(broker) == (4, 1)


async def test_a_producer_that_does_not_know_is_asked_again_in_the_next_round(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    for times in (1, 2, 3):
        await clock.advance(7)
        await check(broker)
        assert (await wait_for_checks(producer, times)).get("TRANSACTION_CHECK_TIMES") == str(times)

    await producer.answer_check(COMMIT)

    assert await bodies(broker) == [b"body"]


async def test_resolved_half_messages_are_passed_without_a_check(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    prepared = [await producer.prepare(half(key=f"K{number}")) for number in range(100)]
    for number, offsets in enumerate(prepared):
        if number != 50:
            await producer.end(offsets, COMMIT if number % 2 else ROLLBACK)
    await clock.advance(7)

    await check(broker)

    assert (await wait_for_checks(producer, 1)).get("UNIQ_KEY") == "K50"
    assert progress(broker)[0] == 100
    assert len(await bodies(broker)) == 50


async def test_ops_are_done_when_all_their_half_messages_are_passed(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    prepared = [await producer.prepare(half(key=f"K{number}")) for number in range(3)]
    await producer.end(prepared[2], COMMIT)
    await clock.advance(3)
    await check(broker)
    assert progress(broker) == (None, None)
    await producer.end(prepared[0], COMMIT)
    await clock.advance(1)
    await check(broker)
    assert progress(broker) == (1, 0)
    await producer.end(prepared[1], COMMIT)
    await clock.advance(3)
    await check(broker)

    assert progress(broker) == (3, 3)


async def test_a_half_message_checked_too_often_is_discarded(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        running(tmp_path, clock, **NO_ROUNDS, transactionCheckMax="2") as broker,
        producing(broker) as producer,
    ):
        await producer.prepare(half())
        for _ in range(4):
            await clock.advance(7)
            await check(broker)

        await wait_for_checks(producer, 2)
        (discarded,) = await broker.messages(CHECK_MAX_TOPIC)
        assert (discarded.body, discarded.get("TRANSACTION_CHECK_TIMES"), discarded.get("REAL_TOPIC")) == (
            b"body",
            "2",
            "orders",
        )
        assert broker.broker.topics.find(CHECK_MAX_TOPIC).write_queue_nums == 1
        assert progress(broker)[0] == 3


async def test_a_half_message_older_than_the_file_retention_is_discarded(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    hours = broker.broker.store.config.file_reserved_time
    await producer.prepare(half(born=clock.millis() - hours * 3_600_000 - 1))

    await check(broker)

    assert len(await broker.messages(CHECK_MAX_TOPIC)) == 1
    assert producer.checks == []


async def test_a_half_message_born_in_the_future_is_checked_at_once(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(born=clock.millis() + 100_000))
    await clock.advance(0.001)

    await check(broker)

    await wait_for_checks(producer, 1)


async def test_a_producer_is_not_asked_within_the_immunity_time_and_no_check_is_counted(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="600"))
    for _ in range(19):
        await clock.advance(30)
        await check(broker)
    assert producer.checks == []
    waiting = await broker.messages(HALF_TOPIC)
    assert [message.get("TRAN_PREPARED_QUEUE_OFFSET") for message in waiting] == [None] + ["0"] * 19

    await clock.advance(31)
    # The broker has closed the silent connection.
    await producer.heartbeat()
    await check(broker)

    assert (await wait_for_checks(producer, 1)).get("TRANSACTION_CHECK_TIMES") == "1"


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_resolving_a_postponed_half_message_resolves_the_one_that_was_put_back(
    broker: BrokerFixture, producer: Producer, clock: ManualClock, decision: int
) -> None:
    offsets = await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="60"))
    await clock.advance(30)
    await check(broker)
    await producer.end(offsets, decision)
    await clock.advance(60)
    await check(broker)
    await check(broker)

    assert producer.checks == []
    assert len(await bodies(broker)) == (decision == COMMIT)


@pytest.mark.parametrize("is_own_first", [True, False])
async def test_a_commit_and_the_answer_to_a_check_store_one_message(
    broker: BrokerFixture, producer: Producer, clock: ManualClock, *, is_own_first: bool
) -> None:
    offsets = await producer.prepare(half())
    await clock.advance(7)
    await check(broker)
    await wait_for_checks(producer, 1)

    if is_own_first:
        await producer.end(offsets, COMMIT)
        await producer.answer_check(COMMIT)
    else:
        await producer.answer_check(COMMIT)
        await producer.end(offsets, COMMIT)
    await clock.advance(60)
    await check(broker)

    assert await bodies(broker) == [b"body"]
    assert len(producer.checks) == 1


async def test_without_a_producer_a_half_message_is_put_back_and_the_check_is_counted(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(PGROUP="others"))
    await clock.advance(7)
    await check(broker)
    assert producer.checks == []

    await producer.heartbeat("others")
    await clock.advance(7)
    await check(broker)

    assert (await wait_for_checks(producer, 1)).get("TRANSACTION_CHECK_TIMES") == "2"


async def test_producers_of_a_group_are_asked_round_robin(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    async with producing(broker) as other:
        for number in range(4):
            await producer.prepare(half(key=f"K{number}"))
        await clock.advance(7)
        await check(broker)

        await until(lambda: len(producer.checks) + len(other.checks) == 4)
        assert len(producer.checks) == len(other.checks) == 2


async def test_a_round_runs_every_interval(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        running(tmp_path, clock, transactionCheckInterval="30000") as broker,
        producing(broker) as producer,
    ):
        await producer.prepare(half())
        for times in (1, 2):
            await clock.advance(30)
            await wait_for_checks(producer, times)
            # The progress is saved at the end of a round.
            await until(lambda times=times: progress(broker)[0] == times)  # type: ignore[misc]


@pytest.mark.parametrize("body", [b"0", b"0,", b"1,0,99,x,", b"0," * 300])
async def test_ops_of_4_x_and_5_x_are_read(tmp_path: Path, clock: ManualClock, body: bytes) -> None:
    async with running(tmp_path, clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        await producer.prepare(half())
        op = Message(OP_TOPIC, body, b"WAIT\x01true\x02TAGS\x01d")
        broker.broker.store.append([Append(OP_TOPIC, 0, encode(op))])
        await clock.advance(7)

        await check(broker)

        assert producer.checks == []
        assert progress(broker) == (1, 1)


async def test_an_op_with_an_unknown_tag_is_ignored(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    broker.broker.store.append([Append(OP_TOPIC, 0, encode(Message(OP_TOPIC, b"0,", b"TAGS\x01x\x02")))])
    await clock.advance(7)

    await check(broker)

    await wait_for_checks(producer, 1)
    assert progress(broker) == (1, 1)


async def test_a_half_message_that_could_not_be_put_back_is_not_passed(
    broker: BrokerFixture, producer: Producer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await producer.prepare(half())
    await clock.advance(7)
    monkeypatch.setattr(broker.broker.store.retention, "refusal", "the disk is full")
    with pytest.raises(StoreFull):
        await check(broker)
    assert progress(broker) == (None, None)

    monkeypatch.setattr(broker.broker.store.retention, "refusal", None)
    await check(broker)

    await wait_for_checks(producer, 1)


async def test_a_half_message_without_room_for_a_check_count_is_discarded(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    (first,) = await broker.messages(HALF_TOPIC)
    room = 32767 - len(first.properties) - len("pad\x01\x02")
    await producer.prepare(half(key="K2", pad="x" * room))
    await clock.advance(7)

    await check(broker)

    await wait_for_checks(producer, 1)
    assert [message.get("UNIQ_KEY") for message in await broker.messages(CHECK_MAX_TOPIC)] == ["K2"]


async def test_a_restart_continues_where_the_check_stopped(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        prepared = [await producer.prepare(half(key=f"K{number}")) for number in range(5)]
        for number in (0, 1, 3):
            await producer.end(prepared[number], COMMIT)

    async with running(tmp_path, clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        await clock.advance(7)
        await check(broker)

        await until(lambda: len(producer.checks) == 2)
        assert {decode(request.body).get("UNIQ_KEY") for request in producer.checks} == {"K2", "K4"}
        assert len(await bodies(broker)) == 3
        assert progress(broker) == (5, 1)


async def test_a_commit_whose_op_was_lost_in_a_crash_is_not_repeated(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path / "store", clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        for number in range(3):
            key = f"K{number}"
            offsets = await producer.prepare(half(key=key, DELAY="18") if number == 1 else half(key=key))
            if number < 2:
                await producer.end(offsets, COMMIT)
        first = (0, (await broker.messages(HALF_TOPIC))[0].physical_offset)
        assert await broker.messages(OP_TOPIC) == []
        # The state after a kill at this point.
        shutil.copytree(tmp_path / "store", tmp_path / "left")

    async with running(tmp_path / "left", clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        await producer.end(first, COMMIT)
        await clock.advance(7)
        await check(broker)

        assert (await wait_for_checks(producer, 1)).get("UNIQ_KEY") == "K2"
        assert len(await bodies(broker)) == 1
        assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 17)) == 1


async def test_a_backlog_is_checked_in_portions(broker: BrokerFixture, producer: Producer, clock: ManualClock) -> None:
    for number in range(100):
        await producer.prepare(half(key=f"K{number}"))
    await clock.advance(7)

    await check(broker)

    await wait_for_checks(producer, 100)
    assert progress(broker)[0] == 100
    assert broker.broker.store.append_offset(HALF_TOPIC, 0) == 200


async def test_committed_offsets_beyond_the_queues_are_corrected(tmp_path: Path, clock: ManualClock) -> None:
    """As after a power cut that lost the end of the log."""
    async with running(tmp_path, clock, **NO_ROUNDS) as broker, producing(broker) as producer:
        await producer.prepare(half())
        for topic in (HALF_TOPIC, OP_TOPIC):
            broker.broker.offsets.commit(PROGRESS, topic, 0, 7)
        broker.broker.transactions.checker.load()
        offsets = await producer.prepare(half(key="K2"))
        await producer.end(offsets, ROLLBACK)
        await producer.prepare(half(key="K3"))
        await clock.advance(7)
        await check(broker)

        assert (await wait_for_checks(producer, 1)).get("UNIQ_KEY") == "K3"
