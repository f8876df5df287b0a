"""Popping over a real socket: what is handed out, and what comes again."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter, NoMessage, PollingTimeout
from kerolox.broker.pop import taking
from kerolox.broker.system_topics import REVIVE_GROUP
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, RemotingError, SystemBusy, SystemFailure, TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.store.queue.pull import Got
from kerolox.wire.bodies.pop import BatchAck, BatchAcks
from kerolox.wire.headers.pop import (
    BatchAckMessage,
    ChangeMessageInvisibleTime,
    Notification,
    PeekMessage,
    PollingInfo,
    PopRollback,
)
from tests.broker.brokers import BrokerFixture, greedy, running, unsent_size
from tests.broker.pop.pops import GROUP, INVISIBLE_MILLIS, Popper, popping, received
from tests.remoting.support import until

# The invisible time, and what it may take beyond that.
LONG_ENOUGH = INVISIBLE_MILLIS / 1000 + 6


@pytest.fixture
async def popper(tmp_path: Path) -> AsyncIterator[Popper]:
    clock = ManualClock()
    async with running(tmp_path / "store", clock) as broker:
        yield Popper(broker, clock)


async def test_a_popped_message_is_not_popped_again_while_it_is_invisible(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")

    assert await popper.bodies("orders") == [b"one"]
    await popper.advance(INVISIBLE_MILLIS / 1000 - 1)
    assert await popper.bodies("orders") == []


async def test_what_is_not_acked_comes_again_under_its_own_topic_and_counts(popper: Popper) -> None:
    await popper.broker.send("orders", b"one", TAGS="t")
    ((first, receipt),) = await popper.pop("orders")

    await popper.advance(LONG_ENOUGH)
    ((again, retried),) = await popper.pop("orders")

    assert (first.reconsume_times, again.reconsume_times) == (0, 1)
    assert (again.topic, again.body, again.tags) == ("orders", b"one", "t")
    assert again.get("1ST_POP_TIME") == str(receipt.pop_time)
    assert retried.mark == "1"
    await popper.ack("orders", retried, retried.queue_offset)
    await popper.advance(LONG_ENOUGH)
    assert await popper.bodies("orders") == []


async def test_what_is_popped_and_acked_is_counted(popper: Popper) -> None:
    broker = popper.broker
    for body in (b"one", b"two"):
        await broker.send("orders", body)
    popped = await popper.pop("orders")
    first, receipt = popped[0]

    await popper.ack("orders", receipt, first.queue_offset)
    await popper.change("orders", popped[1][1], INVISIBLE_MILLIS)
    await popper.bodies("orders")

    assert broker.counted("GROUP_GET_NUMS", f"orders@{GROUP}") == 2
    assert broker.broker.statistics.gets == 2
    assert (broker.broker.statistics.found, broker.broker.statistics.missed) == (1, 1)
    # That of the pop, and that of the message that got more time; its first is settled by an ack.
    assert broker.counted("GROUP_CK_NUMS", f"orders@{GROUP}") == 2
    assert broker.counted("GROUP_ACK_NUMS", f"orders@{GROUP}") == 2
    assert broker.counted("BROKER_ACK_NUMS", "DefaultCluster") == 2
    before = broker.broker.statistics.puts
    await popper.advance(LONG_ENOUGH)
    assert broker.counted("TOPIC_PUT_NUMS", f"%RETRY%{GROUP}_orders") == 1
    assert broker.broker.statistics.puts == before + 1


async def test_what_is_acked_does_not_come_again_and_what_was_popped_with_it_does(popper: Popper) -> None:
    for number in range(4):
        await popper.broker.send("orders", b"%d" % number)
    popped = await popper.pop("orders")

    for message, receipt in popped[1:3]:
        await popper.ack("orders", receipt, message.queue_offset)
    await popper.advance(LONG_ENOUGH)

    assert sorted(await popper.bodies("orders")) == [b"0", b"3"]


async def test_a_batch_of_acks_is_as_good_as_each(popper: Popper) -> None:
    for number in range(10):
        await popper.broker.send("orders", b"%d" % number)
    _, receipt = (await popper.pop("orders"))[0]
    bits = base64.b64encode(bytes([0b11111110, 0b1])).decode()
    batch = BatchAck(
        bit_set=bits,
        consumer_group=GROUP,
        invisible_time=receipt.invisible_time,
        pop_time=receipt.pop_time,
        queue_id=0,
        retry="0",
        revive_queue_id=receipt.revive_queue_id,
        start_offset=receipt.start_offset,
        topic="orders",
    )

    await popper.broker.call(BatchAckMessage(), BatchAcks.of("broker-a", [batch]).encode())
    await popper.advance(LONG_ENOUGH)

    assert sorted(await popper.bodies("orders")) == [b"0", b"9"]


async def test_nothing_is_counted_for_a_group_that_cannot_have_popped(popper: Popper) -> None:
    """Whoever comes chooses the name, and it would stay in memory."""
    broker = popper.broker
    await broker.send("orders", b"one")
    ((message, receipt),) = await popper.pop("orders")
    group = "g" * 20_000
    batch = BatchAck(
        bit_set=base64.b64encode(b"\x01").decode(),
        consumer_group=group,
        invisible_time=receipt.invisible_time,
        pop_time=receipt.pop_time,
        queue_id=0,
        retry="0",
        revive_queue_id=receipt.revive_queue_id,
        start_offset=receipt.start_offset,
        topic="orders",
    )
    more_time = ChangeMessageInvisibleTime(
        consumer_group=group,
        topic="orders",
        queue_id=0,
        extra_info=str(receipt),
        offset=message.queue_offset,
        invisible_time=INVISIBLE_MILLIS,
    )

    with pytest.raises(GroupNotFound):
        await popper.ack("orders", receipt, message.queue_offset, group)
    with pytest.raises(GroupNotFound):
        await broker.call(BatchAckMessage(), BatchAcks.of("broker-a", [batch]).encode())
    with pytest.raises(GroupNotFound):
        await broker.call(more_time)

    assert broker.counted("GROUP_ACK_NUMS", f"orders@{group}") == 0
    assert broker.counted("GROUP_CK_NUMS", f"orders@{group}") == 0
    assert broker.broker.pop.inflight.count("orders", group, 0) == 0


async def test_more_time_keeps_a_message_away_and_less_brings_it_sooner(popper: Popper) -> None:
    for body in (b"long", b"short"):
        await popper.broker.send("orders", body)
    (_, longer), (_, shorter) = await popper.pop("orders")

    changed = (await popper.change("orders", longer, 60_000)).fields
    await popper.change("orders", shorter, 1000)

    assert changed.invisible_time == 60_000
    await popper.advance(7)
    assert await popper.bodies("orders") == [b"short"]
    await popper.advance(40)
    assert await popper.bodies("orders") == [b"short"]
    await popper.advance(25)
    assert b"long" in await popper.bodies("orders")


async def test_time_changed_twice_in_a_millisecond_loses_nothing(popper: Popper) -> None:
    """The ack of the second receipt must not be taken for one of the third."""
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders")

    for _ in range(3):
        changed = (await popper.change("orders", receipt, 5000)).fields
        receipt = type(receipt)(
            receipt.queue_offset,
            changed.pop_time,
            changed.invisible_time,
            changed.revive_qid,
            *(receipt.mark, receipt.broker_name, receipt.queue_id, receipt.queue_offset),
        )
    await popper.advance(LONG_ENOUGH)

    assert await popper.bodies("orders") == [b"one"]


async def test_a_suspended_message_comes_again_without_counting(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders")

    await popper.change("orders", receipt, 2000, suspend=True)
    await popper.advance(8)

    ((again, _),) = await popper.pop("orders")
    assert again.reconsume_times == 0


async def test_the_answer_says_where_its_messages_lie(popper: Popper) -> None:
    for queue_id in (0, 0, 1):
        await popper.broker.send("orders", b"x", queue_id)
    await popper.pop("orders", queue_id=0, max_msg_nums=1)

    first = (await popper.ask("orders", queue_id=0)).fields
    every = (await popper.ask("orders")).fields

    assert (first.start_offset_info, first.msg_offset_info, first.rest_num) == ("0 0 1", "0 0 1", 0)
    assert (every.start_offset_info, every.msg_offset_info) == ("0 1 0", "0 1 0")


async def test_tags_choose_what_is_popped_and_the_rest_is_passed_over(popper: Popper) -> None:
    for tag in ("a", "b", "a", "c"):
        await popper.broker.send("orders", tag.encode(), TAGS=tag)

    popped = await popper.pop("orders", exp="b||c", exp_type="TAG")
    assert [message.body for message, _ in popped] == [b"b", b"c"]
    assert {receipt.start_offset for _, receipt in popped} == {0}
    await popper.ack("orders", popped[1][1], 3)
    await popper.advance(LONG_ENOUGH)

    assert await popper.bodies("orders", exp="b||c", exp_type="TAG") == [b"b"]


async def test_a_pop_that_waits_is_answered_by_the_next_message(popper: Popper) -> None:
    await popper.broker.send("orders", b"old")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", poll_time=60_000))
    await until_polling(popper, 1)

    await popper.broker.send("orders", b"new", 2)

    assert await waiting == [b"new"]


async def test_a_pop_that_waits_is_answered_by_what_comes_again(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", queue_id=3, poll_time=60_000))
    await until_polling(popper, 1, queue_id=3)

    await popper.advance(LONG_ENOUGH)

    assert await waiting == [b"one"]


async def test_each_of_many_who_wait_gets_something(popper: Popper) -> None:
    await popper.broker.send("orders", b"old")
    await popper.pop("orders")
    waiting = [asyncio.create_task(popper.bodies("orders", poll_time=60_000, max_msg_nums=1)) for _ in range(20)]
    await until_polling(popper, 20)

    for number in range(20):
        await popper.broker.send("orders", b"%d" % number, number % 4)

    got = sorted(body for bodies in await asyncio.gather(*waiting) for body in bodies)
    assert got == sorted(b"%d" % number for number in range(20))


async def test_who_waits_in_vain_is_told_so(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")

    with pytest.raises(PollingTimeout):
        await popper.ask("orders", poll_time=20)
    with pytest.raises(PollingTimeout, match="timeout too much"):
        await popper.ask("orders", born_time=popper.clock.millis() - 10_000, poll_time=100)


async def test_no_more_may_wait_than_the_configuration_says(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, popPollingSize="1") as broker:
        popper = Popper(broker, clock)
        await broker.send("orders", b"one")
        await popper.pop("orders")
        waiting = [asyncio.create_task(popper.bodies("orders", poll_time=60_000)) for _ in range(2)]
        await until_polling(popper, 2)

        with pytest.raises(AnswerError) as refused:
            await popper.ask("orders", poll_time=60_000)

        assert refused.value.code == ResponseCode.POLLING_FULL
        for _ in waiting:
            await broker.send("orders", b"go")
        await asyncio.gather(*waiting)


async def test_who_waits_to_pop_takes_no_place_and_ends_with_its_connection(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock) as broker:
        lane = broker.broker.routes._lanes["pull"]
        lane.capacity = 1
        await broker.send("orders", b"one")
        await Popper(broker, clock).pop("orders")
        async with Client() as leaving:
            popper = Popper(BrokerFixture(broker.broker, leaving), clock)
            popped = asyncio.create_task(popper.ask("orders", poll_time=2**62))
            await until(lambda: lane.parked == 1)
            notified = asyncio.create_task(popper.broker.call(notification(2**62)))
            await until(lambda: lane.parked == 2)
        for failed in (popped, notified):
            with pytest.raises(RemotingError):
                await failed

        await until(lambda: lane.parked == 0)

        assert lane.under_way == 0
        assert len(broker.broker.pop.polling) == len(broker.broker.pop.notifying) == 0


async def test_no_more_wait_to_pop_than_may_wait_at_all(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    popper.broker.broker.routes._lanes["pull"].parked_max = 0

    with pytest.raises(AnswerError) as refused:
        await popper.ask("orders", poll_time=600_000)
    notified = await popper.broker.call(notification(600_000))

    assert refused.value.code == ResponseCode.POLLING_FULL
    assert notified.fields.polling_full


async def test_nobody_waits_for_ever_to_pop(popper: Popper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.broker.processors.pop.WAIT_SECONDS_MAX", 0.01)
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")

    with pytest.raises(PollingTimeout):
        await popper.ask("orders", poll_time=2**62)
    notified = await popper.broker.call(notification(2**62))

    assert not notified.fields.has_msg


async def test_a_new_group_begins_where_it_says(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    popper.broker.broker.settings.broker.init_pop_offset_by_check_msg_in_mem = False

    assert await popper.bodies("orders", consumer_group="late", init_mode=1) == [b"2"]
    assert await popper.bodies("orders", consumer_group="early", init_mode=0) == [b"0", b"1", b"2"]


async def test_a_group_that_was_set_to_an_offset_goes_on_there(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    await popper.pop("orders")

    popper.broker.broker.offsets.resets["orders@group"] = {0: 1}

    assert await popper.bodies("orders") == [b"1", b"2"]


async def test_what_cannot_be_is_refused_with_its_code(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders")
    with pytest.raises(TopicNotFound):
        await popper.ask("nothing")
    for wrong in ({"max_msg_nums": 33}, {"queue_id": 4}, {"invisible_time": 4 * 24 * 3600 * 1000}):
        with pytest.raises(InvalidParameter):
            await popper.ask("orders", **wrong)
    with pytest.raises(NoMessage):
        await popper.ack("orders", receipt, 7)
    with pytest.raises(NoMessage):
        await popper.broker.call(BatchAckMessage())
    with pytest.raises(MessageIllegal):
        await popper.ack("orders", type(receipt)(0, 1, 1, 77, "0", "b", 0, 0), 0)
    with pytest.raises(MessageIllegal):
        await popper.ack("orders", type(receipt)(0, 1, 1, 0, "0", "b", 9, 0), 0)
    assert popper.broker.broker.store.queues.get("rmq_sys_REVIVE_LOG_DefaultCluster", 77) is None


async def test_timers_are_needed(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, timerWheelEnable="false") as broker:
        await broker.send("orders", b"one")
        with pytest.raises(SystemFailure, match="timerWheelEnable"):
            await Popper(broker, clock).ask("orders")


async def test_peeking_changes_nothing(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    peeking = PeekMessage(consumer_group=GROUP, topic="orders", queue_id=-1, max_msg_nums=8)

    replies = [await popper.broker.call(peeking) for _ in range(2)]

    assert [reply.fields.rest_num for reply in replies] == [1, 1]
    assert replies[0].body == replies[1].body != b""
    assert await popper.bodies("orders") == [b"one"]
    with pytest.raises(AnswerError) as empty:
        await popper.broker.call(peeking)
    assert empty.value.code == ResponseCode.PULL_NOT_FOUND


async def test_a_notification_comes_when_there_is_something_to_pop(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    asking = Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=60_000, born_time=0)
    assert (await popper.broker.call(asking)).fields.has_msg
    await popper.pop("orders")
    notifying = popper.broker.broker.pop.notifying
    waiting = asyncio.create_task(popper.broker.call(asking))
    while not len(notifying):
        await asyncio.sleep(0)

    await popper.broker.send("orders", b"two")

    assert (await waiting).fields.has_msg
    await popper.pop("orders")
    at_once = Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=0, born_time=0)
    assert not (await popper.broker.call(at_once)).fields.has_msg


async def test_who_waits_can_be_counted(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", poll_time=60_000))
    await until_polling(popper, 1)

    counted = await popper.broker.call(PollingInfo(consumer_group=GROUP, topic="orders", queue_id=-1))

    assert counted.fields.polling_num == 1
    await popper.broker.send("orders", b"two")
    await waiting


# Topics of many queues


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many queues were looked at, turn by turn, by who looks at four of them in each."""
    monkeypatch.setattr(taking, "QUEUES_MAX", 4)
    looked_at: list[int] = []
    next_part = taking.Walk.next_part

    def noted(walk: taking.Walk) -> list[tuple[str, int]]:
        part = next_part(walk)
        looked_at.append(len(part))
        return part

    monkeypatch.setattr(taking.Walk, "next_part", noted)
    return looked_at


async def test_whoever_asks_for_any_of_many_queues_lets_others_have_their_turn(
    popper: Popper, parts: list[int]
) -> None:
    broker = popper.broker
    broker.broker.topics.create("many", 18)
    broker.broker.pop.taking.random = lambda _: 0
    peeking = PeekMessage(consumer_group=GROUP, topic="many", queue_id=-1, max_msg_nums=8)
    asking = Notification(consumer_group=GROUP, topic="many", queue_id=-1, poll_time=0, born_time=0)

    assert await popper.bodies("many") == []
    with pytest.raises(AnswerError):
        await broker.call(peeking)
    assert not (await broker.call(asking)).fields.has_msg
    assert parts == [4, 4, 4, 4, 2] * 3

    await broker.send("many", b"one", 13)
    assert (await broker.call(asking)).fields.has_msg
    assert (await broker.call(peeking)).fields.rest_num == 1
    assert await popper.bodies("many") == [b"one"]
    assert parts[15:] == [4] * 12


async def test_an_offset_is_noted_where_something_was_taken(popper: Popper) -> None:
    """A request over all queues would else fill the table for a group that was never given anything."""
    broker = popper.broker
    broker.broker.topics.create("many", 18)

    assert await popper.bodies("many") == []
    assert f"many@{GROUP}" not in broker.broker.offsets.table
    await broker.send("many", b"one", 13)
    assert await popper.bodies("many") == [b"one"]

    assert list(broker.broker.offsets.table[f"many@{GROUP}"]) == [13]


async def test_who_wants_what_comes_from_now_on_gets_all_of_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, initPopOffsetByCheckMsgInMem="false") as broker:
        popper = Popper(broker, clock)
        broker.broker.topics.create("orders", 2)
        assert await popper.bodies("orders", init_mode=1) == []

        for body in (b"one", b"two", b"three"):
            await broker.send("orders", body)

        assert await popper.bodies("orders", init_mode=1) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("kind", ["pop", "notification"])
async def test_what_comes_while_many_queues_are_looked_at_is_not_missed(
    popper: Popper, parts: list[int], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    broker = popper.broker
    broker.broker.topics.create("many", 18)
    broker.broker.pop.taking.random = lambda _: 0
    sleep = asyncio.sleep

    async def sends_meanwhile(seconds: float) -> None:
        if len(parts) == 3 and not await broker.messages("many", 1):
            parts.append(0)
            await broker.send("many", b"late", 1)
        await sleep(seconds)

    monkeypatch.setattr("kerolox.broker.processors.pop.asyncio.sleep", sends_meanwhile)
    async with asyncio.timeout(20):
        if kind == "pop":
            assert await popper.bodies("many", poll_time=60_000) == [b"late"]
        else:
            asking = Notification(consumer_group=GROUP, topic="many", queue_id=-1, poll_time=60_000, born_time=0)
            assert (await broker.call(asking, seconds=30)).fields.has_msg


async def test_what_was_taken_before_the_table_of_offsets_was_full_is_handed_out(
    popper: Popper, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = popper.broker
    for queue_id in range(2):
        await broker.send("orders", b"%d" % queue_id, queue_id)
    broker.broker.pop.taking.random = lambda _: 0
    monkeypatch.setattr("kerolox.broker.offsets._OFFSETS_MAX", broker.broker.offsets._count + 1)

    assert await popper.bodies("orders") == [b"0"]
    assert not broker.broker.pop.taking.locked
    with pytest.raises(SystemBusy):
        await popper.ask("orders")


async def test_a_rollback_has_nothing_to_do(popper: Popper) -> None:
    assert (await popper.broker.call(PopRollback())).code == ResponseCode.SUCCESS


async def test_the_revive_log_is_followed_and_its_place_kept(popper: Popper) -> None:
    for _ in range(9):
        await popper.broker.send("orders", b"one")
        await popper.pop("orders")
    await popper.advance(LONG_ENOUGH)
    await popper.broker.broker.store.flusher.flush()
    await popper.advance(2)

    topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
    done = [popper.broker.broker.offsets.get(REVIVE_GROUP, topic, queue_id) for queue_id in range(8)]

    assert sorted(offset for offset in done if offset is not None) == [0, 0, 0, 0, 0, 0, 0, 1]


# In order


@pytest.mark.parametrize("order", [False, True])
async def test_a_pop_ends_where_its_answer_would_be_too_large(tmp_path: Path, order: bool) -> None:
    clock = ManualClock()
    sizes = {"mappedFileSizeCommitLog": str(32 << 20), "maxMessageSize": str(6 << 20)}
    async with running(tmp_path / "store", clock, **sizes) as broker:
        popper = Popper(broker, clock)
        for queue_id in range(4):
            await broker.send("orders", b"%d" % queue_id + bytes(3 << 19), queue_id)
        broker.broker.pop.taking.random = lambda _: 0

        replies = [await popper.ask("orders", order=order) for _ in range(2)]

        assert [reply.fields.rest_num for reply in replies] == [2, 0]
        assert [len(received(reply, "broker-a")) for reply in replies] == [2, 2]
        # Whatever its size, one is popped.
        await broker.send("orders", bytes(5 << 20))
        assert len(await popper.pop("orders", order=order, queue_id=0)) == (0 if order else 1)


async def test_popped_in_order_a_queue_gives_nothing_until_all_was_acked(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    popped = await popper.pop("orders", order=True, max_msg_nums=2)
    assert [message.body for message, _ in popped] == [b"0", b"1"]
    assert {receipt.revive_queue_id for _, receipt in popped} == {999}

    assert await popper.bodies("orders", order=True) == []
    await popper.ack("orders", popped[0][1], 0)
    assert await popper.bodies("orders", order=True) == []
    await popper.ack("orders", popped[1][1], 1)

    assert await popper.bodies("orders", order=True) == [b"2"]


async def test_popped_in_order_what_is_not_acked_comes_again_from_there_on(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    popped = await popper.pop("orders", order=True)
    await popper.ack("orders", popped[0][1], 0)

    await popper.advance(INVISIBLE_MILLIS / 1000 + 1)
    reply = await popper.ask("orders", order=True)

    assert reply.fields.order_count_info == "0 qo0%1 1;0 qo0%2 1;0 0 1"
    assert reply.fields.msg_offset_info == "0 0 1,2"


async def test_popped_in_order_the_same_attempt_gets_the_same_again(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")

    assert await popper.bodies("orders", order=True, attempt_id="a") == [b"one"]
    assert await popper.bodies("orders", order=True, attempt_id="a") == [b"one"]
    assert await popper.bodies("orders", order=True, attempt_id="b") == []
    with pytest.raises(InvalidParameter, match="attempt id of 256 characters, at most 255 allowed"):
        await popper.pop("orders", order=True, attempt_id="x" * 256)


async def test_an_ack_lets_who_waits_for_the_queue_go_on(popper: Popper) -> None:
    for number in range(2):
        await popper.broker.send("orders", b"%d" % number)
    ((_, receipt),) = await popper.pop("orders", order=True, max_msg_nums=1)
    waiting = asyncio.create_task(popper.bodies("orders", order=True, poll_time=60_000))
    await until_polling(popper, 1)

    await popper.ack("orders", receipt, 0)

    assert await waiting == [b"1"]


async def test_less_time_in_order_brings_a_message_sooner(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders", order=True)

    changed = (await popper.change("orders", receipt, 1000)).fields
    await popper.advance(2)

    assert changed.pop_time == receipt.pop_time
    assert await popper.bodies("orders", order=True) == [b"one"]


async def test_who_does_not_read_takes_no_more(popper: Popper) -> None:
    broker = popper.broker
    for _ in range(100):
        await broker.send("orders", bytes(200 * 1024))
    lane = broker.broker.routes._lanes["pull"]
    pop = popping("orders", max_msg_nums=1, poll_time=60_000)
    async with greedy(broker, [pop] * 100) as peer:
        await until(lambda: unsent_size(broker) and not lane.under_way)

        assert lane.parked
        assert unsent_size(broker) < 1024 * 1024
        assert len(await popper.pop("orders", max_msg_nums=1)) == 1
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(answer.body) > 200 * 1024 for answer in await peer.answers(99)} == {True}
    await until(lambda: (lane.under_way, lane.parked) == (0, 0))


def notification(poll_time: int) -> Notification:
    return Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=poll_time, born_time=0)


async def until_polling(popper: Popper, count: int, queue_id: int = -1) -> None:
    async with asyncio.timeout(10):
        while popper.broker.broker.pop.polling.waiting("orders", GROUP, queue_id) < count:
            await asyncio.sleep(0)


async def test_an_expression_chooses_what_is_popped(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, enablePropertyFilter="true") as broker:
        for price in ("1", "5", "9"):
            await broker.send("orders", price.encode(), price=price)

        assert await Popper(broker, clock).bodies("orders", exp="price > 4", exp_type="SQL92") == [b"5", b"9"]


async def test_queues_that_take_long_to_look_through_are_looked_at_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, enablePropertyFilter="true", pullLookMillisMax="0") as broker:
        for queue_id in range(4):
            await broker.send("orders", b"%d" % queue_id, queue_id, price=str(queue_id))
        parts = broker.broker.pop
        get, looked = broker.broker.store.reader.get, list[int]()

        def noted(topic: str, queue_id: int, *args: Any, **fields: Any) -> Got:
            looked.append(queue_id)
            return get(topic, queue_id, *args, **fields)

        monkeypatch.setattr(broker.broker.store.reader, "get", noted)
        monkeypatch.setattr(parts.taking, "random", lambda number: 50)
        selection = broker.broker.selector.of_request(GROUP, "orders", "price > 100", "SQL92")

        request = popping("orders")
        taken = parts.taking.take(request, selection, parts.taking.walk(request))

        assert looked == [2]
        assert (taken.count, taken.rest, taken.is_cut_short) == (0, 3, True)
        # Who waits gets what is in the last of them; each turn looks through one that has something.
        wanted = await Popper(broker, clock).bodies("orders", exp="price = 1", exp_type="SQL92", poll_time=60_000)
        assert (wanted, looked) == ([b"1"], [2, 2, 3, 2, 3, 0, 2, 3, 0, 1])
