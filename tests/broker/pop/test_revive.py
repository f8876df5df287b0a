"""Reviving over restarts and crashes: no unacked message is lost."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker.pop.receipt_handle import ReceiptHandle
from kerolox.broker.tables.system_topics import REVIVE_GROUP
from kerolox.message.message import Message
from kerolox.runtime.clock import ManualClock
from kerolox.store.errors import StoreFull
from tests.broker.brokers import BrokerFixture, running
from tests.broker.pop.pops import INVISIBLE_MILLIS, Popper

LONG_ENOUGH = INVISIBLE_MILLIS / 1000 + 6
REVIVE_TOPIC = "rmq_sys_REVIVE_LOG_DefaultCluster"
SETTINGS = {"mappedFileSizeTimerLog": str(52 * 100)}


def copy_as_killed(store: Path, copy: Path) -> Path:
    """Copy a store directory as a kill would leave it; a thread may rename a file meanwhile."""
    for _ in range(5):
        try:
            return shutil.copytree(store, copy, ignore=shutil.ignore_patterns("*.tmp"))
        except shutil.Error:
            shutil.rmtree(copy)
    raise AssertionError(f"{store} could not be copied")


async def send(broker: BrokerFixture, count: int) -> None:
    for number in range(count):
        await broker.send("orders", b"%d" % number, number % 4)


async def ack_all(popper: Popper, popped: list[tuple[Message, ReceiptHandle]]) -> None:
    for message, receipt in popped:
        await popper.ack("orders", receipt, message.queue_offset)


async def drain(popper: Popper, rounds: int = 3) -> list[bytes]:
    """Pop and ack until nothing is left; return the bodies."""
    bodies: list[bytes] = []
    for _ in range(rounds):
        while popped := await popper.pop("orders"):
            bodies += [message.body for message, _ in popped]
            await ack_all(popper, popped)
        await popper.advance(LONG_ENOUGH)
    return sorted(bodies)


async def test_after_a_restart_unacked_messages_are_revived_once_and_no_others(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 8)
        popper = Popper(broker, clock)
        popped = await popper.pop("orders")
        await ack_all(popper, [pair for pair in popped if pair[0].body in (b"0", b"5")])

    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        assert await popper.bodies("orders") == []
        await popper.advance(LONG_ENOUGH)
        assert await drain(popper) == [b"1", b"2", b"3", b"4", b"6", b"7"]


async def test_an_ack_after_a_restart_is_effective(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        popped = await Popper(broker, clock).pop("orders")

    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        await ack_all(popper, popped)
        await popper.advance(LONG_ENOUGH)
        assert await drain(popper) == []


async def test_a_kill_at_any_time_loses_no_unacked_message(tmp_path: Path) -> None:
    """The store directory is copied while messages are popped, acked and revived."""
    clock = ManualClock()
    copies: list[Path] = []
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 8)
        popper = Popper(broker, clock)
        popped = await popper.pop("orders")
        for step in range(9):
            copies.append(copy_as_killed(tmp_path / "store", tmp_path / f"killed-{step}"))
            if step == 0:
                await ack_all(popper, [pair for pair in popped if pair[0].body in (b"0", b"5")])
            await popper.advance(2)

    for copy in copies:
        async with running(copy, clock, **SETTINGS) as broker:
            bodies = await drain(Popper(broker, clock))
        assert set(bodies) >= {b"1", b"2", b"3", b"4", b"6", b"7"}, copy


async def test_a_kill_after_offsets_were_saved_revives_no_acked_message(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 4)
        popper = Popper(broker, clock)
        popped = await popper.pop("orders")
        await ack_all(popper, popped[1:])
        await broker.broker.store.flusher.flush()
        broker.broker.pop.offsets.settle()
        await broker.broker.offsets.file.save()
        copy_as_killed(tmp_path / "store", tmp_path / "killed")

    async with running(tmp_path / "killed", clock, **SETTINGS) as broker:
        popper = Popper(broker, clock)
        assert await popper.bodies("orders") == []
        await popper.advance(LONG_ENOUGH)
        assert await drain(popper) == [popped[0][0].body]


async def test_reviving_is_retried_until_the_store_accepts_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 3)
        popper = Popper(broker, clock)
        await popper.pop("orders")
        revive = broker.broker.pop.revive

        with monkeypatch.context() as patched:

            async def full(draft: object) -> object:
                raise StoreFull("no room")

            patched.setattr(broker.broker.store, "put", full)
            await popper.advance(LONG_ENOUGH)
            assert sum(len(queue.open) for queue in revive.queues) == 3
            assert broker.broker.offsets.get(REVIVE_GROUP, REVIVE_TOPIC, 0) is None
        await popper.advance(2)

        assert await drain(popper) == [b"0", b"1", b"2"]


async def test_a_full_table_of_offsets_does_not_stop_reviving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 3)
        popper = Popper(broker, clock)
        await popper.pop("orders")

        with monkeypatch.context() as patched:
            patched.setattr("kerolox.broker.tables.offsets._OFFSETS_MAX", 1)
            await popper.advance(LONG_ENOUGH)
            await broker.broker.store.flusher.flush()
            await popper.advance(2)
        done = [broker.broker.offsets.get(REVIVE_GROUP, REVIVE_TOPIC, queue_id) for queue_id in range(8)]

        assert any(offset is not None for offset in done)
        assert await drain(popper) == [b"0", b"1", b"2"]


async def test_without_a_checkpoint_no_message_is_popped_and_none_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 3)
        popper = Popper(broker, clock)

        with monkeypatch.context() as patched:

            def full(draft: object, sender: object) -> None:
                sender.refused(StoreFull("no room"))  # type: ignore[attr-defined]

            patched.setattr(broker.broker.store, "submit", full)
            with pytest.raises(Exception, match="no room"):
                await popper.request("orders")

        assert sorted(await popper.bodies("orders")) == [b"0", b"1", b"2"]


async def test_checkpoints_of_a_deleted_topic_do_not_block_others(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, reviveQueueNum="1", **SETTINGS) as broker:
        await broker.send("gone", b"x")
        await send(broker, 1)
        popper = Popper(broker, clock)
        await popper.pop("gone")
        await popper.pop("orders")
        assert broker.broker.pop.in_flight.count("gone", "group", 0) == 1

        broker.broker.topics.delete("gone")
        await popper.advance(LONG_ENOUGH)

        assert broker.broker.pop.in_flight.count("gone", "group", 0) == 0
        assert await popper.bodies("orders") == [b"0"]
        assert broker.broker.topics.get("%RETRY%group_gone") is None


async def test_v2_retry_topics_are_used_if_enabled_and_v1_topics_are_still_read(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with running(tmp_path / "store", clock, **SETTINGS) as broker:
        await send(broker, 1)
        popper = Popper(broker, clock)
        await popper.pop("orders")
        await popper.advance(LONG_ENOUGH)
        broker.broker.settings.broker.enable_retry_topic_v2 = True
        await broker.send("orders", b"second")
        await popper.pop("orders", queue_id=0)
        await popper.advance(LONG_ENOUGH)

        marks = set()
        for number in (50, 51):
            broker.broker.pop.take.random = lambda _, number=number: number  # type: ignore[misc]
            marks |= {receipt.mark for _, receipt in await popper.pop("orders")}

        assert "2" in marks
        assert broker.broker.topics.get("%RETRY%group+orders") is not None
