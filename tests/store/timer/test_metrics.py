"""The counts of pending messages in Java's JSON."""

from pathlib import Path

from kerolox.store.timer.metrics import TimerMetrics
from tests.golden import timers
from tests.store.disks import SimulatedDisk

PATH = Path("/config/timermetrics")


def new_metrics(disk: SimulatedDisk) -> TimerMetrics:
    metrics = TimerMetrics(disk, PATH)
    metrics.load()
    return metrics


def test_the_counts_of_java_are_read_and_written_back() -> None:
    golden = timers.load()
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.write(PATH, golden.metrics)

    metrics = new_metrics(disk)

    assert [metrics.count(topic) for topic in ("orders", "bills", "far", "near", "other", "none")] == [0, 1, 1, 1, 1, 0]
    metrics.mark_changed()
    assert metrics.take_content() == golden.metrics


def test_counts_are_saved_once_they_have_changed() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    metrics = new_metrics(disk)
    assert metrics.take_content() is None
    metrics.add("orders", 2, 1000)
    metrics.add("orders", -1, 2000)

    content = metrics.take_content()
    assert content is not None
    metrics.save(content)

    assert metrics.take_content() is None
    assert new_metrics(disk).count("orders") == 1
    assert disk.content(PATH) == (
        b'{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":2000},'
        b'"timingCount":{"orders":{"count":1,"timeStamp":2000}}}'
    )
