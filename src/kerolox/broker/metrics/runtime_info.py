"""The broker's runtime info: the table that mqadmin's `brokerStatus` and `clusterList` show (GET_BROKER_RUNTIME_INFO).

Java collects it in AdminBrokerProcessor.prepareRuntimeInfo and StoreStatsService.getRuntimeInfo.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from kerolox.broker.parts import BrokerParts
from kerolox.codes import CURRENT_VERSION
from kerolox.runtime.threads import in_thread
from kerolox.store.delay.delay_levels import SCHEDULE_TOPIC

# Thread pools of Java, which have request queues of the same names here.
_POOLS = ("send", "pull", "litePull", "query", "ack")
_INT_MAX = 2**31 - 1


class RuntimeInfo:
    """Collects the table from the parts of a broker."""

    def __init__(self, parts: BrokerParts) -> None:
        self._settings = parts.settings
        self._store = parts.store
        self._delivery = parts.delivery
        self._timer = parts.timer
        self._statistics = parts.statistics
        self._request_queues = parts.request_queues
        self._clock = parts.clock
        self._disk = parts.disk

    async def table(self) -> dict[str, str]:
        entries: dict[str, object] = {}
        for part in (
            self._traffic_entries(),
            self._broker_entries(),
            self._pool_entries(),
            self._store_entries(),
            self._delay_entries(),
            self._timer_entries(),
        ):
            entries.update(part)
        entries.update(await in_thread(self._disk_entries))
        return {key: str(value) for key, value in sorted(entries.items())}

    def _traffic_entries(self) -> Iterator[tuple[str, object]]:
        statistics = self._statistics
        # Java reports at least one put, to avoid a division by zero.
        puts, size = max(statistics.puts, 1), statistics.put_size
        yield "bootTimestamp", statistics.boot_millis
        yield "runtime", _duration(self._clock.millis() - statistics.boot_millis)
        yield "putMessageTimesTotal", puts
        yield "putMessageSizeTotal", size
        yield "putMessageAverageSize", size / puts
        yield "putMessageFailedTimes", 0
        yield "putMessageEntireTimeMax", statistics.put_latencies.max_millis
        yield "putMessageDistributeTime", statistics.put_latencies.distribution
        yield "putLatency99", f"{statistics.put_latencies.percentile(0.99):.2f}"
        yield "putLatency999", f"{statistics.put_latencies.percentile(0.999):.2f}"
        yield "getMessageEntireTimeMax", int(statistics.slowest_get_seconds * 1000)
        yield "dispatchMaxBuffer", 0
        yield "putTps", statistics.store_stats.rates("put")
        yield "getFoundTps", statistics.store_stats.rates("found")
        yield "getMissTps", statistics.store_stats.rates("missed")
        yield "getTotalTps", statistics.store_stats.rates("found", "missed")
        yield "getTransferredTps", statistics.store_stats.rates("transferred")
        # The spelling of 4.x.
        yield "getTransferedTps", statistics.store_stats.rates("transferred")
        for name, morning in (("Yesterday", statistics.yesterday), ("Today", statistics.today)):
            yield f"msgPutTotal{name}Morning", morning.put
            yield f"msgGetTotal{name}Morning", morning.got
        yield "msgPutTotalTodayNow", statistics.user_puts
        yield "msgGetTotalTodayNow", statistics.user_gets

    def _broker_entries(self) -> Iterator[tuple[str, object]]:
        yield "brokerActive", "true"
        yield "brokerVersion", int(CURRENT_VERSION)
        yield "brokerVersionDesc", CURRENT_VERSION.name
        yield "startAcceptSendRequestTimeStamp", self._settings.broker.start_accept_send_request_time_stamp

    def _pool_entries(self) -> Iterator[tuple[str, object]]:
        queues = self._request_queues
        for pool in _POOLS:
            yield f"{pool}ThreadPoolQueueSize", queues[pool].under_way
            yield f"{pool}ThreadPoolQueueCapacity", queues[pool].capacity
            # Requests do not wait: each starts in the event loop iteration in which it arrives.
            yield f"{pool}ThreadPoolQueueHeadWaitTimeMills", 0
        yield "EndTransactionQueueSize", queues["endTransaction"].under_way
        yield "EndTransactionThreadPoolQueueCapacity", queues["endTransaction"].capacity

    def _store_entries(self) -> Iterator[tuple[str, object]]:
        store = self._store
        yield "commitLogMinOffset", store.log.first_offset
        yield "commitLogMaxOffset", store.log.end_offset
        yield "earliestMessageTimeStamp", store.reader.earliest_log_time()
        yield "dispatchBehindBytes", max(0, store.log.end_offset - store.dispatcher.offset)
        yield "remainHowManyDataToFlush", _size(max(0, store.log.end_offset - store.flusher.durable_offset))
        # There is no put lock and no transient store pool here.
        yield "pageCacheLockTimeMills", 0
        yield "remainTransientStoreBufferNumbs", _INT_MAX

    def _delay_entries(self) -> Iterator[tuple[str, object]]:
        for level in self._delivery.levels:
            queue = self._store.queues.get(SCHEDULE_TOPIC, level - 1)
            if queue is not None:
                yield f"scheduleMessageOffset_{level}", f"{self._delivery.offsets.get(level)},{queue.max_offset}"

    def _timer_entries(self) -> Iterator[tuple[str, object]]:
        timer, is_on = self._timer, self._settings.store.timer_wheel_enable
        yield "timerReadBehind", timer.behind_millis // 1000 if is_on else 0
        yield "timerOffsetBehind", timer.behind_messages if is_on else 0
        yield "timerCongestNum", sum(topic.count for topic in timer.metrics.counts.timing_count.values())
        yield "timerEnqueueTps", 0.0
        yield "timerDequeueTps", 0.0

    def _disk_entries(self) -> dict[str, object]:
        """Query the file systems; this may block, so it runs in a thread."""
        config = self._settings.store
        log, root = config.commit_log_directory, config.store_path_root_dir
        ratio = self._used_ratio(log)
        entries: dict[str, object] = {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{log}": ratio,
            "consumeQueueDiskRatio": self._used_ratio(root),
        }
        if root.exists():
            usage = shutil.disk_usage(root)
            entries["commitLogDirCapacity"] = f"Total : {_size(usage.total)}, Free : {_size(usage.free)}."
        return entries

    def _used_ratio(self, path: Path) -> float:
        try:
            return self._disk.used_ratio(path)
        except OSError:
            return -1.0


def _duration(millis: int) -> str:
    seconds = max(0, millis) // 1000
    hours, days = seconds // 3600, seconds // 86_400
    return f"[ {days} days, {hours % 24} hours, {seconds // 60 % 60} minutes, {seconds % 60} seconds ]"


def _size(count: int) -> str:
    """Format a number of bytes like Java: `512 B`, `1.5 MiB`."""
    if count < 1024:
        return f"{count} B"
    number, units = float(count), "KMGTPE"
    index = -1
    while number >= 1024 and index < len(units) - 1:
        number /= 1024
        index += 1
    return f"{number:.1f} {units[index]}iB"
