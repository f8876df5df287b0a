"""The counts of waiting messages: Java's JSON."""

from pathlib import Path

from kerolox.store.timer.metrics import TimerMetrics
from tests.golden import timers
from tests.store.disks import SimulatedDisk

PATH = Path("/config/timermetrics")


def new_metrics(disk: SimulatedDisk) -> TimerMetrics:
    metrics = TimerMetrics(disk, PATH)
    metrics.load()
    return metrics


def test_javas_counts_are_read_and_written_the_same() -> None:
    golden = timers.load()
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    disk.write(PATH, golden.metrics)

    metrics = new_metrics(disk)

    assert [metrics.count(topic) for topic in ("orders", "bills", "far", "near", "other", "none")] == [0, 1, 1, 1, 1, 0]
    metrics.put_back()
    assert metrics.take() == golden.metrics


def test_counts_are_saved_once_they_have_changed() -> None:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    metrics = new_metrics(disk)
    assert metrics.take() is None
    metrics.add("orders", 2, 1000)
    metrics.add("orders", -1, 2000)

    content = metrics.take()
    assert content is not None
    metrics.save(content)

    assert metrics.take() is None
    assert new_metrics(disk).count("orders") == 1
    assert disk.content(PATH) == (
        b'{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":2000},'
        b'"timingCount":{"orders":{"count":1,"timeStamp":2000}}}'
    )


def test_topics_that_are_gone_are_forgotten() -> None:
    metrics = new_metrics(SimulatedDisk())
    for topic in ("orders", "bills", "rmq_sys_REVIVE_LOG_c"):
        metrics.add(topic, 1, 1000)
    metrics.keep_only({"bills"})
    assert [metrics.count(topic) for topic in ("orders", "bills", "rmq_sys_REVIVE_LOG_c")] == [0, 1, 1]
