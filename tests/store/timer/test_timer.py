"""Messages are delivered when they are due: never early, never twice, never lost."""

import asyncio
import errno
from collections.abc import Callable

import pytest

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.service import Supervisor
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreError, TimerRefused
from kerolox.store.log.commit_log import Append
from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.store.timer.timer import Timer
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, StillClock, all_records, new_store, put
from tests.store.timer.timers import NOW, SLOTS, Bench, timer_config


@pytest.mark.parametrize("delay", [1, 999, 1000, 1001, 1500, 2000, 59_999])
@pytest.mark.parametrize("start", [0, 1, 499, 999])
def test_a_message_is_never_early_and_late_by_less_than_the_precision(delay: int, start: int) -> None:
    bench = Bench(clock=StillClock(NOW + start)).open()
    sent_at = bench.clock.millis()
    bench.send("a", TIMER_DELAY_MS=str(delay))

    while not bench.names():
        bench.clock.move(0.001 if bench.clock.millis() - sent_at >= delay - 3 else max(0.001, (delay - 3) / 1000))
        bench.work()

    assert 0 <= bench.clock.millis() - sent_at - delay < 1000


def test_a_delivered_message_equals_the_sent_one_plus_timer_properties(bench: Bench) -> None:
    bench.send("a", "orders", 3, TAGS="red", TIMER_DELAY_SEC="5")
    bench.pass_time(7)

    (message,) = bench.messages("orders", 3)
    assert (message.topic, message.queue_id, message.body, message.tags) == ("orders", 3, b"a", "red")
    assert message.parsed == {
        "UNIQ_KEY": "a",
        "TAGS": "red",
        "TIMER_DELAY_SEC": "5",
        "TIMER_OUT_MS": str(NOW + 4000),
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
        "TIMER_ENQUEUE_MS": str(NOW + 1000),
        "TIMER_DEQUEUE_MS": str(NOW + 5000),
    }


def test_messages_of_one_slot_are_delivered_in_the_order_they_were_sent(bench: Bench) -> None:
    for number in range(700):
        bench.send(f"{number}", TIMER_DELIVER_MS=str(NOW + 5_000))
    bench.pass_time(10)

    assert bench.names() == [f"{number}" for number in range(700)]


def test_messages_of_different_slots_are_delivered_when_they_are_due(bench: Bench) -> None:
    for seconds in (9, 3, 6, 3):
        bench.send(f"in {seconds}", TIMER_DELAY_SEC=str(seconds))
    bench.pass_time(4)
    assert bench.names() == ["in 3", "in 3"]
    bench.pass_time(10)
    assert bench.names() == ["in 3", "in 3", "in 6", "in 9"]


def test_a_message_enqueued_after_its_slot_was_delivered_is_delivered_at_once(bench: Bench) -> None:
    bench.config.timer_stop_enqueue = True
    bench.send("late", TIMER_DELAY_SEC="2")
    bench.pass_time(10)
    bench.config.timer_stop_enqueue = False
    bench.work()

    (message,) = bench.messages()
    assert message.get("TIMER_ENQUEUE_MS") == str(2**63 - 1)
    assert bench.timer.pending("orders") == 0


def test_pending_messages_are_counted_by_topic(bench: Bench) -> None:
    for delay in (5, 5, 20):
        bench.send("a", TIMER_DELAY_SEC=str(delay))
    bench.send("b", "bills", TIMER_DELAY_SEC="5")
    bench.work()
    assert (bench.timer.pending("orders"), bench.timer.pending("bills")) == (3, 1)
    again = bench.reopened()
    again.pass_time(10)
    assert (again.timer.pending("orders"), again.timer.pending("bills")) == (1, 0)


def test_a_delay_beyond_the_window_rolls_and_is_never_early(bench: Bench) -> None:
    bench.send("far", TIMER_DELAY_SEC="350")
    bench.pass_time(349)
    assert bench.names() == []
    rolled = bench.messages(TIMER_TOPIC)
    bench.pass_time(2)

    (message,) = bench.messages()
    assert bench.clock.millis() - NOW == 351_000
    assert int(message.get("TIMER_DEQUEUE_MS") or 0) - NOW == 350_000
    assert message.get("TIMER_ROLL_TIMES") == str(len(rolled) - 1)
    assert len(rolled) == 4
    assert bench.timer.pending("orders") == 0


@pytest.mark.parametrize("delay", [99, 100, 101, 132, 133, 134, 199, 200, 201, 255])
def test_any_delay_around_the_window_is_kept(delay: int) -> None:
    bench = Bench().open()
    bench.send("a", TIMER_DELAY_SEC=str(delay))
    bench.pass_time(delay - 0.5, 0.5)
    assert bench.names() == []
    bench.pass_time(1, 0.5)
    assert bench.names() == ["a"]


def test_slots_are_reused_in_every_round_of_the_wheel(bench: Bench) -> None:
    expected = []
    for turn in range(3 * SLOTS // 60):
        bench.send(f"{turn}", TIMER_DELAY_SEC="60")
        expected.append(f"{turn}")
        bench.pass_time(60)
        bench.flush()
    bench.pass_time(2)

    assert bench.names() == expected
    assert bench.timer.wheel.pages <= 1


def test_after_a_stop_longer_than_the_wheel_nothing_is_lost(bench: Bench) -> None:
    """Java drops messages that were due more than seven days, half its wheel, before a restart."""
    bench.send("a", TIMER_DELAY_SEC="60")
    bench.work()
    bench.close()
    bench.clock.move(10 * SLOTS)

    again = Bench(bench.disk, bench.config, bench.clock).open()
    again.work()

    assert again.names() == ["a"]


def test_a_message_for_a_slot_with_overdue_messages_is_enqueued_later(bench: Bench) -> None:
    bench.config.timer_stop_dequeue = True
    bench.send("old", TIMER_DELAY_SEC="50")
    bench.work()
    bench.clock.move(SLOTS)
    bench.send("new", TIMER_DELIVER_MS=str(NOW + (SLOTS + 50) * 1000))
    bench.send("other", TIMER_DELAY_SEC="10")
    bench.work()
    assert bench.timer.pending("orders") == 1

    bench.config.timer_stop_dequeue = False
    bench.work()
    assert bench.names() == ["old"]
    bench.pass_time(60)
    assert sorted(bench.names()) == ["new", "old", "other"]


def test_nothing_is_enqueued_while_timer_stop_enqueue_is_set(bench: Bench) -> None:
    bench.config.timer_stop_enqueue = True
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.pass_time(10)
    assert bench.names() == []
    bench.config.timer_stop_enqueue = False
    bench.work()
    assert bench.names() == ["a"]


def test_a_clock_that_is_set_back_loses_nothing(bench: Bench) -> None:
    bench.pass_time(100)
    again = bench.reopened()
    again.clock.move(-50)
    third = again.reopened()
    third.send("a", TIMER_DELAY_SEC="5")
    third.work()
    third.pass_time(120)
    assert third.names() == ["a"]


def test_a_clock_that_is_set_back_makes_nothing_early(bench: Bench) -> None:
    bench.pass_time(100)
    bench.clock.move(-50)
    bench.send("a", TIMER_DELAY_SEC="5")
    sent_at = bench.clock.millis()
    bench.pass_time(60)
    (message,) = bench.messages()
    assert message.store_timestamp >= sent_at + 5000


@pytest.mark.parametrize(("before", "after"), [(1000, 100), (100, 1000)])
def test_the_precision_can_be_changed_only_without_pending_messages(before: int, after: int) -> None:
    settings = timer_config(timer_precision_ms=before)
    bench = Bench(settings=settings).open()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    bench.close()

    settings.timer_precision_ms = after
    changed = Bench(bench.disk, settings, bench.clock)
    changed.store.recover()
    with pytest.raises(
        StoreError, match=f"timerPrecisionMs is {after}, but messages are pending in a wheel of {before}"
    ):
        changed.timer.recover()
    changed.close()

    settings.timer_precision_ms = before
    again = Bench(bench.disk, settings, bench.clock).open()
    again.pass_time(10)
    again.close()
    settings.timer_precision_ms = after
    last = Bench(bench.disk, settings, bench.clock).open()
    last.send("b", TIMER_DELAY_SEC="5")
    last.pass_time(10, 0.1)
    assert last.names() == ["a", "b"]
    assert [slot for _, slot in last.timer.wheel.pending()] == []


def test_a_queued_message_without_a_time_is_skipped(bench: Bench) -> None:
    stray = Message(TIMER_TOPIC, b"?", to_bytes({"UNIQ_KEY": "x"}))
    put(bench.store, Append(TIMER_TOPIC, 0, encode(stray)))
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.pass_time(10)
    assert bench.names() == ["a"]


def test_a_message_for_an_invalid_queue_is_skipped(bench: Bench) -> None:
    properties = to_bytes({"TIMER_OUT_MS": str(NOW + 3000), "REAL_TOPIC": "../up", "REAL_QID": "0"})
    put(bench.store, Append(TIMER_TOPIC, 0, encode(Message(TIMER_TOPIC, b"?", properties))))
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.pass_time(10)
    assert bench.names() == ["a"]


def test_timer_properties_are_omitted_if_the_properties_would_be_too_long() -> None:
    bench = Bench(settings=timer_config(mapped_file_size_commit_log=200_000)).open()
    bench.send("a", TIMER_DELAY_SEC="5", filler="x" * 32_640)
    bench.pass_time(10)
    (message,) = bench.messages()
    assert message.get("TIMER_DEQUEUE_MS") is None
    assert message.get("filler") == "x" * 32_640


def test_a_full_disk_delays_deliveries_and_loses_none() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    for number in range(30):
        bench.send(f"{number}", TIMER_DELAY_SEC="5")
    bench.work()
    disk.fail("allocate write", errno.ENOSPC, inside="commitlog")
    bench.pass_time(10)
    assert len(bench.names()) < 30
    disk.heal()
    bench.pass_time(1)

    assert bench.names() == [f"{number}" for number in range(30)]


def test_a_timer_log_that_cannot_be_written_is_written_later() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    disk.fail("write", errno.ENOSPC, inside="timer")
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    with pytest.raises(OSError, match="No space"):
        bench.flush()
    disk.heal()
    again = bench.reopened()
    assert again.timer.log.end == 52
    again.pass_time(10)
    assert again.names() == ["a"]


def test_after_a_failed_sync_the_checkpoint_stays_and_the_next_start_recovers() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    bench.flush()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    disk.fail("sync", errno.EIO, inside="timerwheel")
    with pytest.raises(Exception, match=r"a sync has failed: .*timerwheel"):
        bench.flush()
    disk.heal()
    bench.send("b", TIMER_DELAY_SEC="5")
    bench.work()
    bench.flush()
    assert bench.timer.checkpoint.queue_offset == 0

    again = Bench(disk.after_kill(), bench.config, bench.clock).open()
    again.pass_time(10)
    assert again.names() == ["a", "b"]


def test_messages_are_delivered_under_sync_flush() -> None:
    settings = timer_config()
    settings.flush_disk_type = FlushDiskType.SYNC_FLUSH
    bench = Bench(settings=settings).open()
    bench.send("a", TIMER_DELAY_SEC="5")
    for _ in range(10):
        bench.flush()
        bench.pass_time(1)
    bench.flush()
    assert bench.names() == ["a"]


def test_too_many_messages_for_one_slot_are_refused() -> None:
    bench = Bench(settings=timer_config(timer_congest_num_each_slot=3)).open()
    for _ in range(4):
        bench.send("a", TIMER_DELIVER_MS=str(NOW + 5000))
    bench.work()
    with pytest.raises(TimerRefused, match="timerCongestNumEachSlot"):
        bench.send("a", TIMER_DELIVER_MS=str(NOW + 5000))
    bench.send("a", TIMER_DELIVER_MS=str(NOW + 6000))


def test_a_disabled_timer_creates_no_files() -> None:
    bench = Bench(settings=timer_config(timer_wheel_enable=False)).open()
    bench.close()
    assert isinstance(bench.disk, SimulatedDisk)
    assert "timerwheel" not in bench.disk.names(ROOT)


def zero_slots(disk: SimulatedDisk) -> None:
    disk.overwrite(ROOT / "timerwheel", 0, bytes(len(disk.content(ROOT / "timerwheel"))))


def garble_slots(disk: SimulatedDisk) -> None:
    """Make all slots point to the first unit."""
    content = disk.content(ROOT / "timerwheel")
    for at in range(0, len(content), 32):
        if any(content[at : at + 32]):
            disk.overwrite(ROOT / "timerwheel", at + 16, bytes(8))


DAMAGES: dict[str, Callable[[SimulatedDisk], None]] = {
    "a wheel of another size": lambda disk: disk.write(ROOT / "timerwheel", bytes(64)),
    "a wheel of zeros": zero_slots,
    "slots that lead elsewhere": garble_slots,
    "no wheel": lambda disk: disk.remove(ROOT / "timerwheel"),
    "a damaged checkpoint": lambda disk: disk.overwrite(ROOT / "config" / "timercheck", 0, b"\x7f" * 104),
    "no checkpoint": lambda disk: disk.remove(ROOT / "config" / "timercheck"),
    "no first file of the timer log": lambda disk: disk.remove(ROOT / "timerlog" / disk.names(ROOT / "timerlog")[0]),
    "no second file of the timer log": lambda disk: disk.remove(ROOT / "timerlog" / disk.names(ROOT / "timerlog")[1]),
    "damaged counts": lambda disk: disk.write(ROOT / "config" / "timermetrics", b"{ torn"),
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_each_message_is_delivered_once_after_damage_to_any_timer_file(
    damage: str, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench().open()
    for number in range(12):
        bench.send(f"m{number}", TIMER_DELIVER_MS=str(NOW + 3000 + number * 5000))
    bench.pass_time(20)
    bench.flush()
    assert len(bench.names()) == 4
    if is_clean:
        bench.close()
    assert isinstance(bench.disk, SimulatedDisk)
    disk = bench.disk.after_kill()
    DAMAGES[damage](disk)

    again = Bench(disk, bench.config, bench.clock).open()
    again.pass_time(60)

    assert again.timer.metrics.pending_count == 0
    assert sorted(again.names()) == sorted(f"m{number}" for number in range(12))
    assert "timer" in caplog.text
    again.close()
    assert disk.open_count == 0


async def test_the_service_delivers_while_the_clock_runs() -> None:
    disk, clock, settings = SimulatedDisk(), ManualClock(NOW), timer_config()
    store = new_store(disk, settings, clock)
    timer = Timer(store, clock=clock, disk=disk, slots=SLOTS)
    async with Supervisor(store, timer):
        message = timer.divert(Message("orders", b"a", to_bytes({"UNIQ_KEY": "a", "TIMER_DELAY_MS": "2500"})))
        put(store, Append(message.topic, message.queue_id, encode(message)))
        await clock.advance(2.4)
        assert all_records(store) == []
        await clock.advance(1.0)
        assert len(all_records(store)) == 1
        for _ in range(3):
            await asyncio.sleep(0)
    assert timer.checkpoint.queue_offset == 1
    assert timer.checkpoint.read_time >= NOW + 3000
