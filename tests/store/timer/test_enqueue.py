"""Enqueueing messages writes the same bytes as Java."""

from kerolox.message.message import Message
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.timer.convert import TimerMessage
from kerolox.store.timer.dequeue import TimerDequeue
from kerolox.store.timer.enqueue import TimerEnqueue
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import SLOTS, Wheel
from tests.golden import timers
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, StillClock, opened


def test_wheel_and_timer_log_equal_those_of_java() -> None:
    golden = timers.load()
    disk, clock = SimulatedDisk(), StillClock()
    store = opened(disk, clock=clock)
    disk.make_directory(ROOT / "timerlog")
    wheel = Wheel(disk, ROOT / "timerwheel", slots=SLOTS)
    wheel.load(timers.NOW)
    log = TimerLog(disk, ROOT / "timerlog", timers.FILE_SIZE)
    metrics = TimerMetrics(disk, ROOT / "config" / "timermetrics")
    enqueue = TimerEnqueue(store, wheel, log, TimerDequeue(store, metrics, clock), timers.WINDOW * 1000)

    for entered in timers.ENTERED:
        entry = Entry(entered.physical_offset, entered.size, 0)
        timer_message = TimerMessage(
            Message("", b""), entered.out_millis, entered.topic, b"", entered.delete_key.encode()
        )
        assert enqueue.enqueue(entry, timer_message, entered.write_time)
    log.flush(log.end)
    wheel.take_changes().write()

    directory = ROOT / "timerlog"
    assert {name: disk.content(directory / name) for name in disk.names(directory)} == golden.log
    content = disk.content(ROOT / "timerwheel")
    slots = {number: content[number * 32 : number * 32 + 32] for number in golden.slots}
    assert slots == golden.slots
    assert content.count(0) == len(content) - sum(32 - slot.count(0) for slot in golden.slots.values())
    assert {topic: metrics.count(topic) for topic in metrics.counts.timing_count} == {
        "orders": 0,
        "bills": 1,
        "far": 1,
        "near": 1,
        "other": 1,
    }
