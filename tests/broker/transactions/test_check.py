"""Producers are asked about half messages they have said nothing of."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC
from kerolox.broker.system_topics import TRANSACTION_GROUP as PROGRESS
from kerolox.message.message import Message
from kerolox.message.record import decode, encode
from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreFull
from kerolox.store.log.commit_log import Draft
from tests.broker.brokers import BrokerFixture, running
from tests.broker.transactions.producers import COMMIT, ROLLBACK, Producer, half, producing, until

# Rounds are made by the tests themselves.
NEVER = {"transactionCheckInterval": "3600000"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store", clock, **NEVER) as started:
        yield started


@pytest.fixture
async def producer(broker: BrokerFixture) -> AsyncIterator[Producer]:
    async with producing(broker) as started:
        yield started


async def check(broker: BrokerFixture) -> None:
    """Does a round, after all ops have been written."""
    await broker.broker.transactions.ops.close()
    await broker.broker.transactions.checker.check()


async def asked(producer: Producer, times: int) -> Message:
    await until(lambda: len(producer.asked) >= times)
    assert len(producer.asked) == times
    return decode(producer.asked[-1].body)


def progress(broker: BrokerFixture) -> tuple[int | None, int | None]:
    offsets = broker.broker.offsets
    return offsets.get(PROGRESS, HALF_TOPIC, 0), offsets.get(PROGRESS, OP_TOPIC, 0)


async def bodies(broker: BrokerFixture, topic: str = "orders", queue_id: int = 1) -> list[bytes]:
    return [message.body for message in await broker.messages(topic, queue_id)]


async def test_a_producer_is_asked_after_the_time_out_and_not_before(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(), b"asked for")
    await clock.advance(6)
    await check(broker)
    assert progress(broker) == (None, None)

    await clock.advance(0.001)
    await check(broker)

    message = await asked(producer, 1)
    header = producer.asked[0].header
    (_, again) = await broker.messages(HALF_TOPIC)
    assert (message.topic, message.queue_id, message.body) == ("orders", 1, b"asked for")
    assert (message.get("TRANSACTION_CHECK_TIMES"), again.get("TRANSACTION_CHECK_TIMES")) == ("1", "1")
    assert (header.tran_state_table_offset, header.commit_log_offset) == (1, again.physical_offset)
    assert (header.msg_id, header.transaction_id, header.offset_msg_id) == ("K1", "K1", again.offset_id)
    assert (header.broker_name, header.topic) == ("broker-a", HALF_TOPIC)
    assert progress(broker) == (1, 0)


async def test_the_answer_to_a_question_is_done(broker: BrokerFixture, producer: Producer, clock: ManualClock) -> None:
    for number in range(2):
        await producer.prepare(half(key=f"K{number}"), b"%d" % number)
    await clock.advance(7)
    await check(broker)
    await asked(producer, 2)

    last = producer.asked.pop()
    await producer.answer(COMMIT)
    producer.asked.append(last)
    await producer.answer(ROLLBACK)
    await clock.advance(60)
    await check(broker)

    assert await bodies(broker) == [b"0"]
    assert len(producer.asked) == 2
    assert progress(broker) == (4, 1)


async def test_a_producer_that_does_not_know_is_asked_again_in_the_next_round(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    for times in (1, 2, 3):
        await clock.advance(7)
        await check(broker)
        assert (await asked(producer, times)).get("TRANSACTION_CHECK_TIMES") == str(times)

    await producer.answer(COMMIT)

    assert await bodies(broker) == [b"body"]


async def test_what_has_ended_is_passed_without_a_question(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    places = [await producer.prepare(half(key=f"K{number}")) for number in range(100)]
    for number, place in enumerate(places):
        if number != 50:
            await producer.end(place, COMMIT if number % 2 else ROLLBACK)
    await clock.advance(7)

    await check(broker)

    assert (await asked(producer, 1)).get("UNIQ_KEY") == "K50"
    assert progress(broker)[0] == 100
    assert len(await bodies(broker)) == 50


async def test_ops_are_done_with_when_all_they_name_is_behind(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    places = [await producer.prepare(half(key=f"K{number}")) for number in range(3)]
    await producer.end(places[2], COMMIT)
    await clock.advance(3)
    await check(broker)
    assert progress(broker) == (None, None)
    await producer.end(places[0], COMMIT)
    await clock.advance(1)
    await check(broker)
    assert progress(broker) == (1, 0)
    await producer.end(places[1], COMMIT)
    await clock.advance(3)
    await check(broker)

    assert progress(broker) == (3, 3)


async def test_who_is_asked_too_often_is_given_up(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        running(tmp_path, clock, **NEVER, transactionCheckMax="2") as broker,
        producing(broker) as producer,
    ):
        await producer.prepare(half())
        for _ in range(4):
            await clock.advance(7)
            await check(broker)

        await asked(producer, 2)
        (aside,) = await broker.messages(CHECK_MAX_TOPIC)
        assert (aside.body, aside.get("TRANSACTION_CHECK_TIMES"), aside.get("REAL_TOPIC")) == (b"body", "2", "orders")
        assert broker.broker.topics.find(CHECK_MAX_TOPIC).write_queue_nums == 1
        assert progress(broker)[0] == 3


async def test_what_is_older_than_files_are_kept_is_given_up(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    hours = broker.broker.store.config.file_reserved_time
    await producer.prepare(half(born=clock.millis() - hours * 3_600_000 - 1))

    await check(broker)

    assert len(await broker.messages(CHECK_MAX_TOPIC)) == 1
    assert producer.asked == []


async def test_what_was_born_in_the_future_is_asked_about_at_once(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(born=clock.millis() + 100_000))
    await clock.advance(0.001)

    await check(broker)

    await asked(producer, 1)


async def test_a_producer_that_set_a_time_is_not_asked_before_it_and_that_counts_not(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="600"))
    for _ in range(19):
        await clock.advance(30)
        await check(broker)
    assert producer.asked == []
    waiting = await broker.messages(HALF_TOPIC)
    assert [message.get("TRAN_PREPARED_QUEUE_OFFSET") for message in waiting] == [None] + ["0"] * 19

    await clock.advance(31)
    # The broker has closed a connection on which nobody was heard of.
    await producer.heartbeat()
    await check(broker)

    assert (await asked(producer, 1)).get("TRANSACTION_CHECK_TIMES") == "1"


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_the_end_of_a_message_that_was_spared_is_the_end_of_what_waits_in_its_place(
    broker: BrokerFixture, producer: Producer, clock: ManualClock, decision: int
) -> None:
    place = await producer.prepare(half(CHECK_IMMUNITY_TIME_IN_SECONDS="60"))
    await clock.advance(30)
    await check(broker)
    await producer.end(place, decision)
    await clock.advance(60)
    await check(broker)
    await check(broker)

    assert producer.asked == []
    assert len(await bodies(broker)) == (decision == COMMIT)


@pytest.mark.parametrize("is_own_first", [True, False])
async def test_an_own_commit_and_the_answer_to_a_question_are_one_message(
    broker: BrokerFixture, producer: Producer, clock: ManualClock, *, is_own_first: bool
) -> None:
    place = await producer.prepare(half())
    await clock.advance(7)
    await check(broker)
    await asked(producer, 1)

    if is_own_first:
        await producer.end(place, COMMIT)
        await producer.answer(COMMIT)
    else:
        await producer.answer(COMMIT)
        await producer.end(place, COMMIT)
    await clock.advance(60)
    await check(broker)

    assert await bodies(broker) == [b"body"]
    assert len(producer.asked) == 1


async def test_without_a_producer_a_message_waits_on_and_is_counted(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half(PGROUP="others"))
    await clock.advance(7)
    await check(broker)
    assert producer.asked == []

    await producer.heartbeat("others")
    await clock.advance(7)
    await check(broker)

    assert (await asked(producer, 1)).get("TRANSACTION_CHECK_TIMES") == "2"


async def test_producers_of_a_group_are_asked_in_turn(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    async with producing(broker) as other:
        for number in range(4):
            await producer.prepare(half(key=f"K{number}"))
        await clock.advance(7)
        await check(broker)

        await until(lambda: len(producer.asked) + len(other.asked) == 4)
        assert len(producer.asked) == len(other.asked) == 2


async def test_a_round_comes_every_interval(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        running(tmp_path, clock, transactionCheckInterval="30000") as broker,
        producing(broker) as producer,
    ):
        await producer.prepare(half())
        for times in (1, 2):
            await clock.advance(30)
            await asked(producer, times)
            # Then the round is over, and the next begins to be waited for.
            await until(lambda times=times: progress(broker)[0] == times)  # type: ignore[misc]


@pytest.mark.parametrize("body", [b"0", b"0,", b"1,0,99,x,", b"0," * 300])
async def test_ops_of_4_x_and_of_5_x_are_understood(tmp_path: Path, clock: ManualClock, body: bytes) -> None:
    async with running(tmp_path, clock, **NEVER) as broker, producing(broker) as producer:
        await producer.prepare(half())
        op = Message(OP_TOPIC, body, b"WAIT\x01true\x02TAGS\x01d")
        broker.broker.store.append([Draft(OP_TOPIC, 0, encode(op))])
        await clock.advance(7)

        await check(broker)

        assert producer.asked == []
        assert progress(broker) == (1, 1)


async def test_an_op_with_another_tag_says_nothing(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    broker.broker.store.append([Draft(OP_TOPIC, 0, encode(Message(OP_TOPIC, b"0,", b"TAGS\x01x\x02")))])
    await clock.advance(7)

    await check(broker)

    await asked(producer, 1)
    assert progress(broker) == (1, 1)


async def test_a_message_that_could_not_be_put_back_is_not_passed(
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

    await asked(producer, 1)


async def test_a_half_message_without_room_for_a_count_is_put_aside(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    await producer.prepare(half())
    (first,) = await broker.messages(HALF_TOPIC)
    room = 32767 - len(first.properties) - len("pad\x01\x02")
    await producer.prepare(half(key="K2", pad="x" * room))
    await clock.advance(7)

    await check(broker)

    await asked(producer, 1)
    assert [message.get("UNIQ_KEY") for message in await broker.messages(CHECK_MAX_TOPIC)] == ["K2"]


async def test_a_restart_goes_on_where_it_was(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path, clock, **NEVER) as broker, producing(broker) as producer:
        places = [await producer.prepare(half(key=f"K{number}")) for number in range(5)]
        for number in (0, 1, 3):
            await producer.end(places[number], COMMIT)

    async with running(tmp_path, clock, **NEVER) as broker, producing(broker) as producer:
        await clock.advance(7)
        await check(broker)

        await until(lambda: len(producer.asked) == 2)
        assert {decode(request.body).get("UNIQ_KEY") for request in producer.asked} == {"K2", "K4"}
        assert len(await bodies(broker)) == 3
        assert progress(broker) == (5, 1)


async def test_a_commit_whose_op_a_crash_took_is_not_done_twice(tmp_path: Path, clock: ManualClock) -> None:
    async with running(tmp_path / "store", clock, **NEVER) as broker, producing(broker) as producer:
        for number in range(3):
            place = await producer.prepare(half(key=f"K{number}", **({"DELAY": "18"} if number == 1 else {})))
            if number < 2:
                await producer.end(place, COMMIT)
        first = (0, (await broker.messages(HALF_TOPIC))[0].physical_offset)
        assert await broker.messages(OP_TOPIC) == []
        # What a broker leaves behind that is killed now.
        shutil.copytree(tmp_path / "store", tmp_path / "left")

    async with running(tmp_path / "left", clock, **NEVER) as broker, producing(broker) as producer:
        await producer.end(first, COMMIT)
        await clock.advance(7)
        await check(broker)

        assert (await asked(producer, 1)).get("UNIQ_KEY") == "K2"
        assert len(await bodies(broker)) == 1
        assert len(await broker.messages("SCHEDULE_TOPIC_XXXX", 17)) == 1


async def test_a_backlog_is_gone_through_in_many_turns(
    broker: BrokerFixture, producer: Producer, clock: ManualClock
) -> None:
    for number in range(100):
        await producer.prepare(half(key=f"K{number}"))
    await clock.advance(7)

    await check(broker)

    await asked(producer, 100)
    assert progress(broker)[0] == 100
    assert broker.broker.store.append_offset(HALF_TOPIC, 0) == 200


async def test_progress_that_the_queues_do_not_reach_is_corrected(tmp_path: Path, clock: ManualClock) -> None:
    """As after a power cut that took the end of the log."""
    async with running(tmp_path, clock, **NEVER) as broker, producing(broker) as producer:
        await producer.prepare(half())
        for topic in (HALF_TOPIC, OP_TOPIC):
            broker.broker.offsets.commit(PROGRESS, topic, 0, 7)
        broker.broker.transactions.checker.load()
        place = await producer.prepare(half(key="K2"))
        await producer.end(place, ROLLBACK)
        await producer.prepare(half(key="K3"))
        await clock.advance(7)
        await check(broker)

        assert (await asked(producer, 1)).get("UNIQ_KEY") == "K3"
