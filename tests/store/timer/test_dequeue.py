"""Delivering messages in order, as far as the store accepts them."""

import errno

import pytest

from kerolox.store.errors import StoreFull
from tests.store.disks import SimulatedDisk
from tests.store.timer.timers import Bench


def test_messages_refused_by_the_store_are_delivered_later_in_order() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    for number in range(25):
        bench.send(f"{number}", TIMER_DELAY_SEC="5")
    bench.work()
    # There is room in the current commit log file, but not for another.
    disk.fail("allocate", errno.ENOSPC, inside="commitlog")
    bench.pass_time(10)
    taken = len(bench.names())
    assert 0 < taken < 25
    assert bench.timer.pending("orders") == 25 - taken
    disk.heal()
    bench.work()
    assert bench.names() == [f"{number}" for number in range(25)]
    assert bench.timer.pending("orders") == 0


def test_late_messages_refused_by_the_store_are_delivered_later_in_order() -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    bench.config.timer_stop_enqueue = True
    for number in range(25):
        bench.send(f"{number}", TIMER_DELAY_SEC="5" if number % 3 else "50")
    bench.pass_time(10)
    bench.config.timer_stop_enqueue = False
    disk.fail("allocate", errno.ENOSPC, inside="commitlog")
    bench.pass_time(2)
    disk.heal()
    bench.pass_time(50)
    late = [f"{number}" for number in range(25) if number % 3]
    assert bench.names() == late + [f"{number}" for number in range(25) if not number % 3]


def test_a_store_that_refuses_messages_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    bench = Bench(disk).open()
    bench.send("a", TIMER_DELAY_SEC="5")
    bench.work()
    disk.fail("write allocate", errno.ENOSPC, inside="commitlog")
    caplog.clear()
    bench.pass_time(20)
    errors = [record for record in caplog.records if "the timer cannot continue" in record.message]
    assert len(errors) == 1
    with pytest.raises(StoreFull):
        bench.send("b")
