"""What a broker says of itself: the table that `brokerStatus` and `clusterList` show."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from kerolox.broker.configuration import Settings
from kerolox.broker.statistics import Statistics
from kerolox.codes import CURRENT_VERSION
from kerolox.runtime.blocking import in_thread
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.runtime.lanes import Lane
from kerolox.store.delay.delays import SCHEDULE_TOPIC
from kerolox.store.delay.schedule import ScheduledDelivery
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer

# What the original calls its thread pools, and we the lanes that stand where they do.
_POOLS = ("send", "pull", "litePull", "query", "ack")
_INT_MAX = 2**31 - 1


class RuntimeInfo:
    """Gathers what the parts of a broker know."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        delivery: ScheduledDelivery,
        timer: Timer,
        statistics: Statistics,
        lanes: Mapping[str, Lane],
        clock: Clock,
        disk: Disk,
    ) -> None:
        self._settings = settings
        self._store = store
        self._delivery = delivery
        self._timer = timer
        self._statistics = statistics
        self._lanes = lanes
        # How many pulls and pops wait for a message to come: they are under way, and nobody's queue.
        self._clock = clock
        self._disk = disk

    async def table(self) -> dict[str, str]:
        found: dict[str, object] = {}
        for part in (self._traffic(), self._broker(), self._pools(), self._of_store(), self._delays(), self._timers()):
            found.update(part)
        found.update(await in_thread(self._disks))
        return {key: str(value) for key, value in sorted(found.items())}

    def _traffic(self) -> Iterator[tuple[str, object]]:
        statistics = self._statistics
        # The original counts from one on.
        puts, size = max(statistics.puts, 1), statistics.put_size
        yield "bootTimestamp", statistics.boot_millis
        yield "runtime", _duration(self._clock.millis() - statistics.boot_millis)
        yield "putMessageTimesTotal", puts
        yield "putMessageSizeTotal", size
        yield "putMessageAverageSize", size / puts
        yield "putMessageFailedTimes", 0
        yield "putMessageEntireTimeMax", statistics.latencies.max_millis
        yield "putMessageDistributeTime", statistics.latencies.distribution
        yield "putLatency99", f"{statistics.latencies.percentile(0.99):.2f}"
        yield "putLatency999", f"{statistics.latencies.percentile(0.999):.2f}"
        yield "getMessageEntireTimeMax", int(statistics.slowest_get_seconds * 1000)
        yield "dispatchMaxBuffer", 0
        yield "putTps", statistics.rates.told("put")
        yield "getFoundTps", statistics.rates.told("found")
        yield "getMissTps", statistics.rates.told("missed")
        yield "getTotalTps", statistics.rates.told("found", "missed")
        yield "getTransferredTps", statistics.rates.told("transferred")
        # How 4.x spells it.
        yield "getTransferedTps", statistics.rates.told("transferred")
        for name, morning in (("Yesterday", statistics.yesterday), ("Today", statistics.today)):
            yield f"msgPutTotal{name}Morning", morning.put
            yield f"msgGetTotal{name}Morning", morning.got
        yield "msgPutTotalTodayNow", statistics.user_puts
        yield "msgGetTotalTodayNow", statistics.user_gets

    def _broker(self) -> Iterator[tuple[str, object]]:
        yield "brokerActive", "true"
        yield "brokerVersion", int(CURRENT_VERSION)
        yield "brokerVersionDesc", CURRENT_VERSION.name
        yield "startAcceptSendRequestTimeStamp", self._settings.broker.start_accept_send_request_time_stamp

    def _pools(self) -> Iterator[tuple[str, object]]:
        for pool in _POOLS:
            lane = self._lanes.get(pool) or self._lanes.get("default")
            yield f"{pool}ThreadPoolQueueSize", lane.under_way if lane else 0
            yield f"{pool}ThreadPoolQueueCapacity", lane.capacity if lane else 0
            # Requests are begun in the turn in which they come.
            yield f"{pool}ThreadPoolQueueHeadWaitTimeMills", 0
        ending = self._lanes.get("endTransaction")
        yield "EndTransactionQueueSize", ending.under_way if ending else 0
        yield "EndTransactionThreadPoolQueueCapacity", ending.capacity if ending else 0

    def _of_store(self) -> Iterator[tuple[str, object]]:
        store = self._store
        yield "commitLogMinOffset", store.log.first_offset
        yield "commitLogMaxOffset", store.log.end_offset
        yield "earliestMessageTimeStamp", store.reader.earliest_log_time()
        yield "dispatchBehindBytes", max(0, store.log.end_offset - store.dispatcher.offset)
        yield "remainHowManyDataToFlush", _size(max(0, store.log.end_offset - store.flusher.durable_offset))
        # Nothing is locked, and no buffer lies between a message and its file.
        yield "pageCacheLockTimeMills", 0
        yield "remainTransientStoreBufferNumbs", _INT_MAX

    def _delays(self) -> Iterator[tuple[str, object]]:
        for level in self._delivery.levels:
            queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
            if queue is not None:
                yield f"scheduleMessageOffset_{level}", f"{self._delivery.offsets.get(level)},{queue.max_offset}"

    def _timers(self) -> Iterator[tuple[str, object]]:
        timer, is_on = self._timer, self._settings.store.timer_wheel_enable
        yield "timerReadBehind", timer.behind_millis // 1000 if is_on else 0
        yield "timerOffsetBehind", timer.behind_messages if is_on else 0
        yield "timerCongestNum", sum(topic.count for topic in timer.metrics.counts.timing_count.values())
        yield "timerEnqueueTps", 0.0
        yield "timerDequeueTps", 0.0

    def _disks(self) -> dict[str, object]:
        """Asks the file systems, which may block."""
        config = self._settings.store
        log, root = config.commit_log_directory, config.store_path_root_dir
        ratio = self._ratio(log)
        found: dict[str, object] = {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{log}": ratio,
            "consumeQueueDiskRatio": self._ratio(root),
        }
        if root.exists():
            usage = shutil.disk_usage(root)
            found["commitLogDirCapacity"] = f"Total : {_size(usage.total)}, Free : {_size(usage.free)}."
        return found

    def _ratio(self, path: Path) -> float:
        try:
            return self._disk.used_ratio(path)
        except OSError:
            return -1.0


def _duration(millis: int) -> str:
    seconds = max(0, millis) // 1000
    hours, days = seconds // 3600, seconds // 86_400
    return f"[ {days} days, {hours % 24} hours, {seconds // 60 % 60} minutes, {seconds % 60} seconds ]"


def _size(count: int) -> str:
    """Returns bytes as the original writes them: `512 B`, `1.5 MiB`."""
    if count < 1024:
        return f"{count} B"
    number, units = float(count), "KMGTPE"
    at = -1
    while number >= 1024 and at < len(units) - 1:
        number /= 1024
        at += 1
    return f"{number:.1f} {units[at]}iB"
