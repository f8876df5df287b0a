"""Recovery of pop offsets from checkpoints in the log, after a crash."""

import json
import re
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.pop_offsets import PopOffsets
from kerolox.broker.pop.recovery import PopRecovery
from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.broker.tables.system_topics import REVIVE_GROUP
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.wire.headers.broker import DeleteTopicInBroker
from kerolox.wire.headers.offsets import ResetOffset, UpdateConsumerOffset
from tests.broker.brokers import BrokerFixture, running
from tests.broker.pop.pops import GROUP, INVISIBLE_MILLIS, Popper
from tests.broker.pop.test_revive import LONG_ENOUGH, SETTINGS, ack_all, copy_as_killed, drain, send
from tests.remoting.support import until

OFFSETS = Path("config") / "consumerOffset.json"


async def reset(broker: BrokerFixture, offset: int) -> None:
    await broker.call(ResetOffset(topic="orders", group=GROUP, timestamp=-1, is_force=True, queue_id=0, offset=offset))


async def test_a_kill_repeats_no_acked_message_and_loses_no_other(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 8)
        popper = Popper(broker, clock)
        popped = await popper.pop("orders")
        await ack_all(popper, [pair for pair in popped if pair[0].body in (b"0", b"5")])
        await broker.send("orders", b"not popped", 1)
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        ((message, receipt),) = await popper.pop("orders")
        assert message.body == b"not popped"
        await popper.ack("orders", receipt, message.queue_offset)
        await popper.advance(LONG_ENOUGH)
        assert await drain(popper) == [b"1", b"2", b"3", b"4", b"6", b"7"]


async def test_receipts_from_before_a_kill_are_valid_after_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        popped = await Popper(broker, clock).pop("orders")
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        await ack_all(popper, popped)
        assert await drain(popper) == []


async def test_a_broker_that_crashes_more_often_than_it_saves_makes_progress(tmp_path: Path) -> None:
    clock = ManualClock()
    directory = tmp_path / "store"
    delivered: list[bytes] = []
    for run in range(6):
        async with running(directory, clock, **SETTINGS) as broker:
            popper = Popper(broker, clock)
            if run == 0:
                await send(broker, 12)
            popped = await popper.pop("orders", max_msg_nums=2)
            delivered += [message.body for message, _ in popped]
            await ack_all(popper, popped)
            await clock.advance(2)
            directory = copy_as_killed(directory, tmp_path / f"killed-{run}")

    assert sorted(delivered) == sorted(b"%d" % number for number in range(12))


async def test_pops_with_a_very_short_invisible_time_are_recovered(tmp_path: Path) -> None:
    """Their checkpoints go to the revive log directly, not through the timer."""
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        popper = Popper(broker, clock)
        await ack_all(popper, await popper.pop("orders", invisible_time=500))
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        assert await drain(Popper(broker, clock)) == []


async def test_a_message_without_a_checkpoint_is_not_skipped(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number, tag in enumerate("aabbaab"):
            await broker.send("orders", b"%d" % number, TAGS=tag)
            # Offsets 2, 3 and 6 are skipped without a checkpoint, since their tag does not match.
            await ack_all(popper, await popper.pop("orders", exp="a", exp_type="TAG"))
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    for expression, expected in (("*", [b"2", b"3", b"6"]), ("a", [])):
        copy = copy_as_killed(tmp_path / "killed", tmp_path / f"killed-{len(expected)}")
        async with running(copy, clock, **SETTINGS) as broker:
            popper = Popper(broker, clock)
            assert broker.broker.offsets.get(GROUP, "orders", 0) == 2
            assert [body for _ in range(4) for body in await popper.bodies("orders", exp=expression)] == expected
            assert broker.broker.pop.offsets.get(GROUP, "orders", 0) == 7
            assert not broker.broker.pop.offsets.has_recovered


async def test_an_offset_that_was_reset_is_kept_after_a_kill(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number in range(6):
            await broker.send("orders", b"%d" % number)
        await ack_all(popper, await popper.pop("orders"))
        await reset(broker, 2)
        copy_as_killed(tmp_path / "store", tmp_path / "killed")
        assert await popper.bodies("orders", max_msg_nums=1) == [b"2"]
        copy_as_killed(tmp_path / "store", tmp_path / "killed-later")

    for name, expected in (("killed", [b"2", b"3", b"4", b"5"]), ("killed-later", [b"3", b"4", b"5"])):
        async with running(tmp_path / name, clock, **SETTINGS) as broker:
            assert await Popper(broker, clock).bodies("orders") == expected


async def test_a_commit_of_a_lower_offset_is_saved_soon(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number in range(6):
            await broker.send("orders", b"%d" % number)
        await ack_all(popper, await popper.pop("orders"))
        await broker.broker.pop.settle()
        await broker.call(UpdateConsumerOffset(consumer_group=GROUP, topic="orders", queue_id=0, commit_offset=2))
        await clock.advance(0.5)
        await until(lambda: "0:2" in (tmp_path / "store" / OFFSETS).read_text())
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        assert await Popper(broker, clock).bodies("orders") == [b"2", b"3", b"4", b"5"]


async def test_a_group_that_is_reset_after_a_kill_gets_all_messages_again(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number, tag in enumerate("aba"):
            await broker.send("orders", b"%d" % number, TAGS=tag)
            await popper.pop("orders", exp="a", exp_type="TAG")
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        assert broker.broker.pop.offsets.has_recovered
        await reset(broker, 0)
        assert await Popper(broker, clock).bodies("orders") == [b"0", b"1", b"2"]


async def test_a_group_that_started_at_the_end_misses_no_message_after_a_kill(tmp_path: Path) -> None:
    clock = ManualClock()
    late = {"initPopOffsetByCheckMsgInMem": "false", **SETTINGS}
    async with running(tmp_path / "store", clock, **late) as broker:
        popper = Popper(broker, clock)
        for number in range(5):
            await broker.send("orders", b"%d" % number)
        assert await popper.bodies("orders", init_mode=1) == [b"4"]
        for number in range(5, 9):
            await broker.send("orders", b"%d" % number)
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **late) as broker:
        assert await Popper(broker, clock).bodies("orders", init_mode=1) == [b"5", b"6", b"7", b"8"]


async def test_a_message_revived_before_a_kill_is_revived_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        popper = Popper(broker, clock)
        await popper.pop("orders")
        while broker.broker.store.reader.max_offset(f"%RETRY%{GROUP}_orders", 0) < 4:
            await popper.advance(1)
        # A kill before the revive offset is saved would revive the messages again.
        while REVIVE_GROUP not in (tmp_path / "store" / OFFSETS).read_text():
            await popper.advance(1)
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        assert await drain(popper) == [b"0", b"1", b"2", b"3"]


async def test_a_message_acked_in_order_is_not_popped_again_after_a_kill(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number in range(4):
            await broker.send("orders", b"%d" % number)
        await ack_all(popper, await popper.pop("orders", max_msg_nums=2, order=True))
        await popper.pop("orders", max_msg_nums=1, order=True)
        await clock.advance(0.5)
        saved = [tmp_path / "store" / OFFSETS, tmp_path / "store" / "config" / "consumerOrderInfo.json"]
        await until(lambda: all(path.exists() for path in saved) and "0:2" in saved[0].read_text())
        await until(lambda: re.search(r'"o":\[2\]', saved[1].read_text()) is not None)
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        assert await popper.bodies("orders", order=True) == []
        await popper.advance(INVISIBLE_MILLIS / 1000)
        assert await popper.bodies("orders", order=True) == [b"2", b"3"]


@pytest.mark.parametrize("position", [None, 2**40])
async def test_without_a_saved_pop_position_pops_are_repeated(tmp_path: Path, position: int | None) -> None:
    """RocketMQ saves no pop position; and the log may have been removed."""
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        await Popper(broker, clock).pop("orders")
        copy_as_killed(tmp_path / "store", tmp_path / "killed")
    path = tmp_path / "killed" / OFFSETS
    found = json.loads(path.read_text())
    assert found.pop("keroloxPopPosition") == 0
    path.write_text(json.dumps(found if position is None else found | {"keroloxPopPosition": position}))

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        assert sorted(await Popper(broker, clock).bodies("orders")) == [b"0", b"1", b"2", b"3"]
        copy_as_killed(tmp_path / "killed", tmp_path / "again")
    async with running(tmp_path / "again", clock, **SETTINGS) as broker:
        assert await Popper(broker, clock).bodies("orders") == []


async def test_the_number_of_recovered_checkpoints_is_limited_and_later_pops_are_repeated(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number in range(5):
            await broker.send("orders", b"%d" % number)
            await popper.pop("orders")
        parts = broker.broker
        offsets = ConsumerOffsets(BrokerConfig(), RealDisk(), tmp_path, clock)
        offsets.commit(GROUP, "orders", 0, 0)
        pop_offsets = PopOffsets(offsets, lambda: 0)
        recovery = PopRecovery(
            parts.store, parts.topics, parts.groups, pop_offsets, parts.pop.revive_log, checkpoints_max=3
        )

        assert recovery.recover(0) == 3
        assert offsets.get(GROUP, "orders", 0) == 3


async def test_inconsistent_checkpoints_do_not_change_offsets(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await broker.send("orders", b"one")
        await Popper(broker, clock).pop("orders", consumer_group="other")
        for fields in (
            {"so": -5, "d": [0]},
            {"so": 0, "d": [0, 7]},
            {"so": 0, "d": [-3]},
            {"so": 0, "d": [0], "q": 3},
            {"so": 0, "d": [0], "t": "nowhere"},
            {"so": 0, "d": [0], "c": "nobody"},
            {"so": 0, "d": [0], "bn": "broker-b"},
        ):
            body = {"bm": 0, "bn": "broker-a", "c": GROUP, "it": 9, "n": 1, "pt": 1, "q": 0, "t": "orders"} | fields
            await broker.send("rmq_sys_REVIVE_LOG_DefaultCluster", json.dumps(body).encode(), TAGS="ck")
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, autoCreateSubscriptionGroup="true", **SETTINGS) as broker:
        assert not broker.broker.pop.offsets.has_recovered
        assert await Popper(broker, clock).bodies("orders") == [b"one"]


async def test_a_topic_recreated_after_a_kill_starts_at_its_first_message(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        for number, tag in enumerate("ba"):
            await broker.send("orders", b"%d" % number, TAGS=tag)
            await popper.pop("orders", exp="a", exp_type="TAG")
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        assert broker.broker.pop.offsets.has_recovered
        await broker.call(DeleteTopicInBroker(topic="orders"))
        for number in range(3):
            await broker.send("orders", b"new %d" % number)
        assert await Popper(broker, clock).bodies("orders") == [b"new 0", b"new 1", b"new 2"]
