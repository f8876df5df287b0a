"""Entering messages: what Java's timer store makes of them, byte for byte."""

from kerolox.message.message import Message
from kerolox.store.queue.consume_queue import Entry
from kerolox.store.timer.delivering import Delivering
from kerolox.store.timer.delivery import Timed
from kerolox.store.timer.entering import Entering
from kerolox.store.timer.metrics import TimerMetrics
from kerolox.store.timer.timer_log import TimerLog
from kerolox.store.timer.wheel import SLOTS, Wheel
from tests.golden import timers
from tests.store.disks import SimulatedDisk
from tests.store.stores import ROOT, StillClock, opened


def test_the_same_messages_make_the_same_bytes_as_in_java() -> None:
    golden = timers.load()
    disk, clock = SimulatedDisk(), StillClock()
    store = opened(disk, clock=clock)
    disk.make_directory(ROOT / "timerlog")
    wheel = Wheel(disk, ROOT / "timerwheel", slots=SLOTS)
    wheel.load(timers.NOW)
    log = TimerLog(disk, ROOT / "timerlog", timers.FILE_SIZE)
    metrics = TimerMetrics(disk, ROOT / "config" / "timermetrics")
    entering = Entering(store, wheel, log, Delivering(store, metrics, clock), timers.WINDOW * 1000)

    for entered in timers.ENTERED:
        entry = Entry(entered.physical_offset, entered.size, 0)
        waiting = Timed(Message("", b""), entered.out_millis, entered.topic, b"", entered.delete_key.encode())
        assert entering.enter(entry, waiting, entered.write_time)
    log.flush(log.end)
    wheel.take().write()

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
