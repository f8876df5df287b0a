"""POP requests over a real socket."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter, NoMessage, PollingTimeout
from kerolox.broker.pop import take
from kerolox.broker.tables.system_topics import REVIVE_GROUP
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, RemotingError, SystemBusy, SystemFailure, TopicNotFound
from kerolox.message.errors import MessageIllegal
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreError
from kerolox.store.queue.lookup import GetResult
from kerolox.wire.bodies.pop import BatchAck, BatchAcks
from kerolox.wire.headers.pop import (
    BatchAckMessage,
    ChangeMessageInvisibleTime,
    Notification,
    Notified,
    PeekMessage,
    PollingInfo,
    PopRollback,
)
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, greedy, running, unsent_size
from tests.broker.pop.pops import GROUP, INVISIBLE_MILLIS, Popper, popping, received
from tests.remoting.support import until

# The invisible time, and the delay until a message is revived.
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


async def test_an_unacked_message_is_revived_under_its_topic_and_counted(popper: Popper) -> None:
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


async def test_pops_and_acks_are_counted(popper: Popper) -> None:
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
    # Checkpoints of the pop and of the changed message, whose first checkpoint is acked.
    assert broker.counted("GROUP_CK_NUMS", f"orders@{GROUP}") == 2
    assert broker.counted("GROUP_ACK_NUMS", f"orders@{GROUP}") == 2
    assert broker.counted("BROKER_ACK_NUMS", "DefaultCluster") == 2
    before = broker.broker.statistics.puts
    await popper.advance(LONG_ENOUGH)
    assert broker.counted("TOPIC_PUT_NUMS", f"%RETRY%{GROUP}_orders") == 1
    assert broker.broker.statistics.puts == before + 1


async def test_only_the_unacked_messages_of_a_pop_are_revived(popper: Popper) -> None:
    for number in range(4):
        await popper.broker.send("orders", b"%d" % number)
    popped = await popper.pop("orders")

    for message, receipt in popped[1:3]:
        await popper.ack("orders", receipt, message.queue_offset)
    await popper.advance(LONG_ENOUGH)

    assert sorted(await popper.bodies("orders")) == [b"0", b"3"]


async def test_a_batch_of_acks_equals_single_acks(popper: Popper) -> None:
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


async def test_acks_of_unknown_groups_are_not_counted(popper: Popper) -> None:
    """A client could choose any name, and the counter would stay in memory."""
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
    assert broker.broker.pop.in_flight.count("orders", group, 0) == 0


async def test_a_changed_invisible_time_delays_or_hastens_a_message(popper: Popper) -> None:
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


async def test_two_changes_of_invisible_time_in_one_millisecond_lose_no_message(popper: Popper) -> None:
    """The ack of the second receipt must not acknowledge the third."""
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


async def test_a_suspended_message_is_revived_without_counting(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders")

    await popper.change("orders", receipt, 2000, suspend=True)
    await popper.advance(8)

    ((again, _),) = await popper.pop("orders")
    assert again.reconsume_times == 0


async def test_the_response_has_the_offsets_of_its_messages(popper: Popper) -> None:
    for queue_id in (0, 0, 1):
        await popper.broker.send("orders", b"x", queue_id)
    await popper.pop("orders", queue_id=0, max_msg_nums=1)

    first = (await popper.request("orders", queue_id=0)).fields
    every = (await popper.request("orders")).fields

    assert (first.start_offset_info, first.msg_offset_info, first.rest_num) == ("0 0 1", "0 0 1", 0)
    assert (every.start_offset_info, every.msg_offset_info) == ("0 1 0", "0 1 0")


async def test_messages_with_other_tags_are_skipped(popper: Popper) -> None:
    for tag in ("a", "b", "a", "c"):
        await popper.broker.send("orders", tag.encode(), TAGS=tag)

    popped = await popper.pop("orders", exp="b||c", exp_type="TAG")
    assert [message.body for message, _ in popped] == [b"b", b"c"]
    assert {receipt.start_offset for _, receipt in popped} == {0}
    await popper.ack("orders", popped[1][1], 3)
    await popper.advance(LONG_ENOUGH)

    assert await popper.bodies("orders", exp="b||c", exp_type="TAG") == [b"b"]


async def test_a_waiting_pop_gets_the_next_message(popper: Popper) -> None:
    await popper.broker.send("orders", b"old")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", poll_time=60_000))
    await until_polling(popper, 1)

    await popper.broker.send("orders", b"new", 2)

    assert await waiting == [b"new"]


async def test_a_waiting_pop_gets_a_revived_message(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", queue_id=3, poll_time=60_000))
    await until_polling(popper, 1, queue_id=3)

    await popper.advance(LONG_ENOUGH)

    assert await waiting == [b"one"]


async def test_each_of_many_waiting_pops_gets_a_message(popper: Popper) -> None:
    await popper.broker.send("orders", b"old")
    await popper.pop("orders")
    waiting = [asyncio.create_task(popper.bodies("orders", poll_time=60_000, max_msg_nums=1)) for _ in range(20)]
    await until_polling(popper, 20)

    for number in range(20):
        await popper.broker.send("orders", b"%d" % number, number % 4)

    got = sorted(body for bodies in await asyncio.gather(*waiting) for body in bodies)
    assert got == sorted(b"%d" % number for number in range(20))


async def test_a_pop_without_messages_times_out(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")

    with pytest.raises(PollingTimeout):
        await popper.request("orders", poll_time=20)
    with pytest.raises(PollingTimeout, match="timeout too much"):
        await popper.request("orders", born_time=popper.clock.millis() - 10_000, poll_time=100)


async def test_the_number_of_waiting_pops_is_limited(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, popPollingSize="1") as broker:
        popper = Popper(broker, clock)
        await broker.send("orders", b"one")
        await popper.pop("orders")
        waiting = [asyncio.create_task(popper.bodies("orders", poll_time=60_000)) for _ in range(2)]
        await until_polling(popper, 2)

        with pytest.raises(AnswerError) as refused:
            await popper.request("orders", poll_time=60_000)

        assert refused.value.code == ResponseCode.POLLING_FULL
        for _ in waiting:
            await broker.send("orders", b"go")
        await asyncio.gather(*waiting)


async def test_a_waiting_pop_uses_no_queue_capacity_and_ends_with_its_connection(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock) as broker:
        request_queue = broker.broker.parts.request_queues["pull"]
        request_queue.capacity = 1
        await broker.send("orders", b"one")
        await Popper(broker, clock).pop("orders")
        async with Client() as leaving:
            popper = Popper(BrokerFixture(broker.broker, leaving), clock)
            popped = asyncio.create_task(popper.request("orders", poll_time=2**62))
            await until(lambda: request_queue.parked == 1)
            notified = asyncio.create_task(popper.broker.call(notification(2**62)))
            await until(lambda: request_queue.parked == 2)
        for failed in (popped, notified):
            with pytest.raises(RemotingError):
                await failed

        await until(lambda: request_queue.parked == 0)

        assert request_queue.under_way == 0
        assert len(broker.broker.pop.polling) == len(broker.broker.pop.notification_polling) == 0


async def test_the_limit_of_long_polls_applies_to_pops(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    popper.broker.broker.parts.request_queues["pull"].parked_max = 0

    with pytest.raises(AnswerError) as refused:
        await popper.request("orders", poll_time=600_000)
    notified = await popper.broker.call(notification(600_000))

    assert refused.value.code == ResponseCode.POLLING_FULL
    assert notified.fields.polling_full


async def test_the_waiting_time_of_a_pop_is_limited(popper: Popper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.broker.processors.pop.WAIT_SECONDS_MAX", 0.01)
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")

    with pytest.raises(PollingTimeout):
        await popper.request("orders", poll_time=2**62)
    notified = await popper.broker.call(notification(2**62))

    assert not notified.fields.has_msg


async def test_a_new_group_starts_where_init_mode_says(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    popper.broker.broker.settings.broker.init_pop_offset_by_check_msg_in_mem = False

    assert await popper.bodies("orders", consumer_group="late", init_mode=1) == [b"2"]
    assert await popper.bodies("orders", consumer_group="early", init_mode=0) == [b"0", b"1", b"2"]


async def test_a_group_that_was_reset_continues_at_the_new_offset(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    await popper.pop("orders")

    popper.broker.broker.offsets.resets["orders@group"] = {0: 1}

    assert await popper.bodies("orders") == [b"1", b"2"]


async def test_invalid_pops_are_refused_with_their_code(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders")
    with pytest.raises(TopicNotFound):
        await popper.request("nothing")
    for wrong in ({"max_msg_nums": 33}, {"queue_id": 4}, {"invisible_time": 4 * 24 * 3600 * 1000}):
        with pytest.raises(InvalidParameter):
            await popper.request("orders", **wrong)
    with pytest.raises(NoMessage):
        await popper.ack("orders", receipt, 7)
    with pytest.raises(NoMessage):
        await popper.broker.call(BatchAckMessage())
    with pytest.raises(MessageIllegal):
        await popper.ack("orders", type(receipt)(0, 1, 1, 77, "0", "b", 0, 0), 0)
    with pytest.raises(MessageIllegal):
        await popper.ack("orders", type(receipt)(0, 1, 1, 0, "0", "b", 9, 0), 0)
    assert popper.broker.broker.store.queues.get("rmq_sys_REVIVE_LOG_DefaultCluster", 77) is None


async def test_pops_are_refused_without_the_timer(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, timerWheelEnable="false") as broker:
        await broker.send("orders", b"one")
        with pytest.raises(SystemFailure, match="timerWheelEnable"):
            await Popper(broker, clock).request("orders")


async def test_peeking_does_not_pop(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    peeking = PeekMessage(consumer_group=GROUP, topic="orders", queue_id=-1, max_msg_nums=8)

    replies = [await popper.broker.call(peeking) for _ in range(2)]

    assert [reply.fields.rest_num for reply in replies] == [1, 1]
    assert replies[0].body == replies[1].body != b""
    assert await popper.bodies("orders") == [b"one"]
    with pytest.raises(AnswerError) as empty:
        await popper.broker.call(peeking)
    assert empty.value.code == ResponseCode.PULL_NOT_FOUND


async def test_a_notification_is_sent_when_a_message_arrives(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    asking = Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=60_000, born_time=0)
    assert (await popper.broker.call(asking)).fields.has_msg
    await popper.pop("orders")
    notification_polling = popper.broker.broker.pop.notification_polling
    waiting = asyncio.create_task(popper.broker.call(asking))
    while not len(notification_polling):
        await asyncio.sleep(0)

    await popper.broker.send("orders", b"two")

    assert (await waiting).fields.has_msg
    await popper.pop("orders")
    at_once = Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=0, born_time=0)
    assert not (await popper.broker.call(at_once)).fields.has_msg


async def test_a_notification_waits_for_a_message_that_its_tags_match(popper: Popper) -> None:
    await popper.broker.send("orders", b"blue", TAGS="blue")
    asking = msgspec.structs.replace(notification(60_000), exp="red || green", exp_type="TAG")
    waiting = await until_notifying(popper, asking)
    await popper.broker.send("orders", b"blue too", TAGS="blue")
    # A later request gets its response only after the woken requests have looked.
    assert not (await popper.broker.call(msgspec.structs.replace(asking, poll_time=0))).fields.has_msg
    assert not waiting.done()

    await popper.broker.send("orders", b"green", TAGS="green")

    assert (await waiting).fields.has_msg
    assert (await popper.broker.call(notification(0))).fields.has_msg


async def test_a_notification_waits_for_a_message_that_its_expression_matches(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, enablePropertyFilter="true") as broker:
        await broker.send("orders", b"cheap", price="1")
        asking = msgspec.structs.replace(notification(60_000), exp="price > 4", exp_type="SQL92")
        waiting = await until_notifying(Popper(broker, clock), asking)

        await broker.send("orders", b"dear", price="5")

        assert (await waiting).fields.has_msg
        with pytest.raises(AnswerError) as refused:
            await broker.call(msgspec.structs.replace(asking, exp="price >"))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


@pytest.mark.parametrize(
    "settings", [{"useMessageFilterForNotification": "false"}, {"maxMessageFilterNumForNotification": "2"}]
)
async def test_a_notification_ignores_tags_if_configured_or_if_there_are_many_messages(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    async with running(tmp_path / "store", ManualClock(), **settings) as broker:
        for _ in range(2):
            await broker.send("orders", b"blue", TAGS="blue")

        asking = msgspec.structs.replace(notification(0), exp="red", exp_type="TAG")

        assert (await broker.call(asking)).fields.has_msg


async def until_notifying(popper: Popper, asking: Notification) -> "asyncio.Task[Reply[Notified]]":
    """Return a notification request that waits."""
    waiting = asyncio.create_task(popper.broker.call(asking))
    await until(lambda: len(popper.broker.broker.pop.notification_polling) == 1 or waiting.done())
    assert not waiting.done()
    return waiting


async def test_polling_info_counts_waiting_pops(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    await popper.pop("orders")
    waiting = asyncio.create_task(popper.bodies("orders", poll_time=60_000))
    await until_polling(popper, 1)

    counted = await popper.broker.call(PollingInfo(consumer_group=GROUP, topic="orders", queue_id=-1))

    assert counted.fields.polling_num == 1
    await popper.broker.send("orders", b"two")
    await waiting


# Topics with many queues


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each portion of a scan, which has four queues at most."""
    monkeypatch.setattr(take, "QUEUES_MAX", 4)
    sizes: list[int] = []
    next_queues = take.QueueScan.next_queues

    def recorded(scan: take.QueueScan) -> list[tuple[str, int]]:
        portion = next_queues(scan)
        sizes.append(len(portion))
        return portion

    monkeypatch.setattr(take.QueueScan, "next_queues", recorded)
    return sizes


async def test_a_scan_of_many_queues_does_not_block_other_requests(popper: Popper, portions: list[int]) -> None:
    broker = popper.broker
    broker.broker.topics.create("many", 18)
    broker.broker.pop.take.random = lambda _: 0
    peeking = PeekMessage(consumer_group=GROUP, topic="many", queue_id=-1, max_msg_nums=8)
    asking = Notification(consumer_group=GROUP, topic="many", queue_id=-1, poll_time=0, born_time=0)

    assert await popper.bodies("many") == []
    with pytest.raises(AnswerError):
        await broker.call(peeking)
    assert not (await broker.call(asking)).fields.has_msg
    assert portions == [4, 4, 4, 4, 2] * 3

    await broker.send("many", b"one", 13)
    assert (await broker.call(asking)).fields.has_msg
    assert (await broker.call(peeking)).fields.rest_num == 1
    assert await popper.bodies("many") == [b"one"]
    assert portions[15:] == [4] * 12


async def test_offsets_are_committed_only_for_queues_that_gave_messages(popper: Popper) -> None:
    """Otherwise a request over all queues would fill the table for a group that never got a message."""
    broker = popper.broker
    broker.broker.topics.create("many", 18)

    assert await popper.bodies("many") == []
    assert f"many@{GROUP}" not in broker.broker.offsets.table
    await broker.send("many", b"one", 13)
    assert await popper.bodies("many") == [b"one"]

    assert list(broker.broker.offsets.table[f"many@{GROUP}"]) == [13]


async def test_a_group_that_starts_at_the_end_gets_all_later_messages(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, initPopOffsetByCheckMsgInMem="false") as broker:
        popper = Popper(broker, clock)
        broker.broker.topics.create("orders", 2)
        assert await popper.bodies("orders", init_mode=1) == []

        for body in (b"one", b"two", b"three"):
            await broker.send("orders", body)

        assert await popper.bodies("orders", init_mode=1) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("kind", ["pop", "notification"])
async def test_a_message_that_arrives_during_a_long_scan_is_not_missed(
    popper: Popper, portions: list[int], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    broker = popper.broker
    broker.broker.topics.create("many", 18)
    broker.broker.pop.take.random = lambda _: 0
    sleep = asyncio.sleep

    async def sends_meanwhile(seconds: float) -> None:
        if len(portions) == 3 and not await broker.messages("many", 1):
            portions.append(0)
            await broker.send("many", b"late", 1)
        await sleep(seconds)

    monkeypatch.setattr("kerolox.broker.processors.pop.asyncio.sleep", sends_meanwhile)
    async with asyncio.timeout(20):
        if kind == "pop":
            assert await popper.bodies("many", poll_time=60_000) == [b"late"]
        else:
            asking = Notification(consumer_group=GROUP, topic="many", queue_id=-1, poll_time=60_000, born_time=0)
            assert (await broker.call(asking, seconds=30)).fields.has_msg


async def test_messages_taken_before_the_offset_table_was_full_are_returned(
    popper: Popper, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = popper.broker
    for queue_id in range(2):
        await broker.send("orders", b"%d" % queue_id, queue_id)
    broker.broker.pop.take.random = lambda _: 0
    monkeypatch.setattr("kerolox.broker.tables.offsets._OFFSETS_MAX", broker.broker.offsets._count + 1)

    assert await popper.bodies("orders") == [b"0"]
    assert not broker.broker.pop.take.locked
    with pytest.raises(SystemBusy):
        await popper.request("orders")


async def test_a_rollback_does_nothing(popper: Popper) -> None:
    assert (await popper.broker.call(PopRollback())).code == ResponseCode.SUCCESS


async def test_the_revive_log_is_read_and_its_offset_committed(popper: Popper) -> None:
    for _ in range(9):
        await popper.broker.send("orders", b"one")
        await popper.pop("orders")
    await popper.advance(LONG_ENOUGH)
    await popper.broker.broker.store.flusher.flush()
    await popper.advance(2)

    topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
    done = [popper.broker.broker.offsets.get(REVIVE_GROUP, topic, queue_id) for queue_id in range(8)]

    assert sorted(offset for offset in done if offset is not None) == [0, 0, 0, 0, 0, 0, 0, 1]


# Ordered popping


@pytest.mark.parametrize("order", [False, True])
async def test_the_size_of_a_response_is_limited(tmp_path: Path, order: bool) -> None:
    clock = ManualClock()
    sizes = {"mappedFileSizeCommitLog": str(32 << 20), "maxMessageSize": str(6 << 20)}
    async with running(tmp_path / "store", clock, **sizes) as broker:
        popper = Popper(broker, clock)
        for queue_id in range(4):
            await broker.send("orders", b"%d" % queue_id + bytes(3 << 19), queue_id)
        broker.broker.pop.take.random = lambda _: 0

        replies = [await popper.request("orders", order=order) for _ in range(2)]

        assert [reply.fields.rest_num for reply in replies] == [2, 0]
        assert [len(received(reply, "broker-a")) for reply in replies] == [2, 2]
        # One message is popped, however large.
        await broker.send("orders", bytes(5 << 20))
        assert len(await popper.pop("orders", order=order, queue_id=0)) == (0 if order else 1)


async def test_ordered_a_queue_is_blocked_until_all_messages_are_acked(popper: Popper) -> None:
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


async def test_ordered_messages_are_popped_again_from_the_first_unacked_one(popper: Popper) -> None:
    for number in range(3):
        await popper.broker.send("orders", b"%d" % number)
    popped = await popper.pop("orders", order=True)
    await popper.ack("orders", popped[0][1], 0)

    await popper.advance(INVISIBLE_MILLIS / 1000 + 1)
    reply = await popper.request("orders", order=True)

    assert reply.fields.order_count_info == "0 qo0%1 1;0 qo0%2 1;0 0 1"
    assert reply.fields.msg_offset_info == "0 0 1,2"


async def test_ordered_a_repeated_attempt_gets_the_same_messages(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")

    assert await popper.bodies("orders", order=True, attempt_id="a") == [b"one"]
    assert await popper.bodies("orders", order=True, attempt_id="a") == [b"one"]
    assert await popper.bodies("orders", order=True, attempt_id="b") == []
    with pytest.raises(InvalidParameter, match="attempt id of 256 characters, at most 255 allowed"):
        await popper.pop("orders", order=True, attempt_id="x" * 256)


async def test_ordered_an_ack_wakes_a_request_that_waits_for_the_queue(popper: Popper) -> None:
    for number in range(2):
        await popper.broker.send("orders", b"%d" % number)
    ((_, receipt),) = await popper.pop("orders", order=True, max_msg_nums=1)
    waiting = asyncio.create_task(popper.bodies("orders", order=True, poll_time=60_000))
    await until_polling(popper, 1)

    await popper.ack("orders", receipt, 0)

    assert await waiting == [b"1"]


async def test_ordered_a_shorter_invisible_time_hastens_a_message(popper: Popper) -> None:
    await popper.broker.send("orders", b"one")
    ((_, receipt),) = await popper.pop("orders", order=True)

    changed = (await popper.change("orders", receipt, 1000)).fields
    await popper.advance(2)

    assert changed.pop_time == receipt.pop_time
    assert await popper.bodies("orders", order=True) == [b"one"]


async def test_a_client_that_does_not_read_gets_no_more_messages(popper: Popper) -> None:
    broker = popper.broker
    for _ in range(100):
        await broker.send("orders", bytes(200 * 1024))
    request_queue = broker.broker.parts.request_queues["pull"]
    pop = popping("orders", max_msg_nums=1, poll_time=60_000)
    async with greedy(broker, [pop] * 100) as peer:
        await until(lambda: unsent_size(broker) and not request_queue.under_way)

        assert request_queue.parked
        assert unsent_size(broker) < 1024 * 1024
        assert len(await popper.pop("orders", max_msg_nums=1)) == 1
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert {len(answer.body) > 200 * 1024 for answer in await peer.answers(99)} == {True}
    await until(lambda: (request_queue.under_way, request_queue.parked) == (0, 0))


def notification(poll_time: int) -> Notification:
    return Notification(consumer_group=GROUP, topic="orders", queue_id=-1, poll_time=poll_time, born_time=0)


async def until_polling(popper: Popper, count: int, queue_id: int = -1) -> None:
    async with asyncio.timeout(10):
        while popper.broker.broker.pop.polling.waiting("orders", GROUP, queue_id) < count:
            await asyncio.sleep(0)


async def test_messages_that_do_not_match_an_expression_are_skipped(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, enablePropertyFilter="true") as broker:
        for price in ("1", "5", "9"):
            await broker.send("orders", price.encode(), price=price)

        assert await Popper(broker, clock).bodies("orders", exp="price > 4", exp_type="SQL92") == [b"5", b"9"]


async def test_messages_popped_before_a_damaged_queue_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock) as broker:
        for queue_id in range(4):
            await broker.send("orders", b"%d" % queue_id, queue_id)
        get = broker.broker.store.reader.get

        def failing(topic: str, queue_id: int, *args: Any, **fields: Any) -> GetResult:
            if queue_id == 1:
                raise StoreError("damaged")
            return get(topic, queue_id, *args, **fields)

        monkeypatch.setattr(broker.broker.pop.take, "random", lambda number: 99)
        with monkeypatch.context() as patched:
            patched.setattr(broker.broker.store.reader, "get", failing)
            assert await Popper(broker, clock).bodies("orders") == [b"3", b"0"]

        assert await Popper(broker, clock).bodies("orders") == [b"1", b"2"]


async def test_slow_filtering_of_queues_is_spread_over_several_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, enablePropertyFilter="true", pullLookMillisMax="0") as broker:
        for queue_id in range(4):
            await broker.send("orders", b"%d" % queue_id, queue_id, price=str(queue_id))
        pop = broker.broker.pop
        get, read_queues = broker.broker.store.reader.get, list[int]()

        def recorded(topic: str, queue_id: int, *args: Any, **fields: Any) -> GetResult:
            read_queues.append(queue_id)
            return get(topic, queue_id, *args, **fields)

        monkeypatch.setattr(broker.broker.store.reader, "get", recorded)
        monkeypatch.setattr(pop.take, "random", lambda number: 50)
        message_filter = broker.broker.selector.of_request(GROUP, "orders", "price > 100", "SQL92")

        request = popping("orders")
        result = pop.take.take_in_memory(request, message_filter, pop.take.scan(request))

        assert read_queues == [2]
        assert (result.count, result.remaining, result.is_cut_short) == (0, 3, True)
        # A waiting pop gets the message of the last queue; each call filters one queue with messages.
        bodies = await Popper(broker, clock).bodies("orders", exp="price = 1", exp_type="SQL92", poll_time=60_000)
        assert (bodies, read_queues) == ([b"1"], [2, 2, 3, 2, 3, 0, 2, 3, 0, 1])
