"""Counters of messages in and out, by topic and by group, and their rates (BrokerStatsManager)."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import NamedTuple, TypeVar

from kerolox.broker.metrics.store_stats import PutLatencies, StoreStats, Totals
from kerolox.broker.metrics.windows import MINUTE, WINDOWS, Traffic
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

# Topics, and pairs of topic and group, with counters of their own; RocketMQ has no limit.
_TRAFFICS_MAX = 100_000
# Counters sampled in one iteration of the event loop.
_SAMPLES_PER_ITERATION = 500
_LATENCIES_SECONDS = 60

K = TypeVar("K", str, tuple[str, str])

# Counters by topic and group, and the counter of the whole broker that they add to.
_PAIR_COUNTERS = {
    "GROUP_ACK_NUMS": "BROKER_ACK_NUMS",
    "GROUP_CK_NUMS": "BROKER_CK_NUMS",
    "SNDBCK_PUT_NUMS": None,
    "DLQ_PUT_NUMS": None,
    "SNDBCK2DLQ_TIMES": None,
}
# Java's key of this one is `owner@topic@group@kind`.
_DLQ_TIMES = "SNDBCK2DLQ_TIMES"
# Counters of the whole broker that are attributes of BrokerStats.
_BROKER_TOTALS = {
    "BROKER_PUT_NUMS": "puts",
    "BROKER_GET_NUMS": "gets",
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": "user_puts",
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": "user_gets",
}
_PUT_MEMBERS = {"TOPIC_PUT_NUMS": "messages", "TOPIC_PUT_SIZE": "size", "TOPIC_PUT_LATENCY": "seconds"}
_GET_MEMBERS = {"GROUP_GET_NUMS": "messages", "GROUP_GET_SIZE": "size", "GROUP_GET_LATENCY": "seconds"}


class Morning(NamedTuple):
    """Messages stored and consumed up to a midnight, without those of system topics."""

    put: int = 0
    got: int = 0


class BrokerStats(Service):
    """Counts sends and pulls. `put` and `got` only add to counters; rates are computed once per second."""

    def __init__(self, cluster: str, is_system: Callable[[str], bool], clock: Clock) -> None:
        self._cluster = cluster
        self._is_system = is_system
        self._clock = clock
        self.boot_millis = clock.millis()
        self.store_stats = StoreStats(self.boot_millis)
        self.put_latencies = PutLatencies()
        self._fast, self._slow = self.put_latencies.fast, self.put_latencies.slow
        # Messages consumed, and requests that found messages or none. Put requests are counted by `put_latencies`.
        self.gets = self.found = self.missed = 0
        self._system_puts = self._system_gets = 0
        # Messages beyond the first of their put request.
        self._puts_batched = 0
        self.slowest_get_seconds = 0.0
        self.yesterday, self.today = Morning(), Morning()
        self._day = self._date()
        self._puts: dict[str, Traffic] = {}
        self._gets: dict[tuple[str, str], Traffic] = {}
        self._pairs: dict[str, dict[tuple[str, str], Traffic]] = {name: {} for name in _PAIR_COUNTERS}
        self._broker = {name: Traffic() for name in (*_BROKER_TOTALS, *filter(None, _PAIR_COUNTERS.values()))}

    # Counting

    def put(self, topic: str, count: int, size: int, seconds: float) -> None:
        """Count the messages of one put request; `size` is their size in the commit log."""
        try:
            traffic = self._puts[topic]
        except KeyError:
            traffic = self._create(self._puts, topic, topic)
        traffic.messages += count
        traffic.size += size
        traffic.seconds += seconds
        if count > 1:
            traffic.batched += count - 1
            self._puts_batched += count - 1
        if traffic.is_system:
            self._system_puts += count
        if seconds < 0.001:
            self._fast[int(seconds * 1e6)] += 1
        else:
            tenths = int(seconds * 1e4)
            self._slow[tenths] = self._slow.get(tenths, 0) + 1

    def put_all(self, topic: str, requests: int, size: int, nanos: int) -> None:
        """Count put requests of one message each, of `size` bytes in total, which took `nanos` each.

        Integer nanoseconds, because the fastest path has them and converting a float to a bucket number costs time.
        """
        try:
            traffic = self._puts[topic]
        except KeyError:
            traffic = self._create(self._puts, topic, topic)
        traffic.messages += requests
        traffic.size += size
        traffic.nanos += nanos * requests
        if traffic.is_system:
            self._system_puts += requests
        if nanos < 1_000_000:
            self._fast[nanos // 1000] += requests
        else:
            tenths = nanos // 100_000
            self._slow[tenths] = self._slow.get(tenths, 0) + requests

    def got(self, topic: str, group: str, count: int, size: int, seconds: float) -> None:
        """Count the messages that one pull or pop request was answered with; `count` may be 0."""
        if not count:
            self.missed += 1
            return
        self.found += 1
        traffic = self._gets.get((topic, group))
        if traffic is None:
            traffic = self._create(self._gets, (topic, group), topic)
        traffic.messages += count
        traffic.batched += count - 1
        traffic.size += size
        traffic.seconds += seconds
        self.gets += count
        if traffic.is_system:
            self._system_gets += count
        if seconds > self.slowest_get_seconds:
            self.slowest_get_seconds = seconds

    def add(self, name: str, topic: str, group: str, count: int = 1) -> None:
        """Add to one of the counters by topic and group, by its RocketMQ name (_PAIR_COUNTERS)."""
        table = self._pairs[name]
        traffic = table.get((topic, group)) or self._create(table, (topic, group), topic)
        traffic.messages += count
        traffic.batched += count - 1
        broker_counter = _PAIR_COUNTERS[name]
        if broker_counter is not None:
            self._broker[broker_counter].messages += count
            self._broker[broker_counter].batched += count

    def _create(self, table: dict[K, Traffic], key: K, topic: str) -> Traffic:
        traffic = Traffic(is_system=self._is_system(topic))
        # Beyond the limit the counter is discarded: these messages count only for the whole broker.
        if len(table) < _TRAFFICS_MAX:
            table[key] = traffic
        return traffic

    # Reading

    def find(self, name: str, key: str) -> tuple[Traffic, str] | None:
        """Return the counter of VIEW_BROKER_STATS_DATA and the member of Values it means; None if nothing was counted.

        The key is a topic, or `topic@group`, or the cluster name for a counter of the whole broker.
        """
        if name == _DLQ_TIMES:
            key = key.partition("@")[2].rpartition("@")[0]
        topic, _, group = key.partition("@")
        traffic: Traffic | None = None
        if name in _PUT_MEMBERS:
            traffic = self._puts.get(key)
        elif name in _GET_MEMBERS:
            traffic = self._gets.get((topic, group))
        elif name in self._pairs:
            traffic = self._pairs[name].get((topic, group))
        elif key == self._cluster:
            traffic = self._broker.get(name)
        member = _PUT_MEMBERS.get(name) or _GET_MEMBERS.get(name) or "messages"
        return None if traffic is None else (traffic, member)

    def put_rate(self, topic: str) -> float:
        """Return the messages stored per second, over the last minute."""
        traffic = self._puts.get(topic)
        return traffic.window_stats(MINUTE, "messages").per_second if traffic else 0.0

    def get_rate(self, topic: str, group: str) -> float:
        """Return the messages consumed per second, over the last minute."""
        traffic = self._gets.get((topic, group))
        return traffic.window_stats(MINUTE, "messages").per_second if traffic else 0.0

    @property
    def incoming(self) -> Mapping[str, Traffic]:
        """Stored messages by topic; a live view, to be copied if it is kept."""
        return self._puts

    @property
    def outgoing(self) -> Mapping[tuple[str, str], Traffic]:
        """Consumed messages by topic and group; a live view."""
        return self._gets

    @property
    def dead_letters(self) -> Mapping[tuple[str, str], Traffic]:
        """Messages sent to dead letter queues, by the topic they were consumed from and group; a live view."""
        return self._pairs[_DLQ_TIMES]

    @property
    def puts(self) -> int:
        """Messages stored since the start of the broker."""
        return self.put_latencies.requests + self._puts_batched

    @property
    def user_puts(self) -> int:
        """Messages stored since the start of the broker, without those of system topics."""
        return self.puts - self._system_puts

    @property
    def user_gets(self) -> int:
        """Messages consumed since the start of the broker, without those of system topics."""
        return self.gets - self._system_gets

    @property
    def put_size(self) -> int:
        """Bytes stored, of the topics that have counters now: topics deleted or idle for a day are missing."""
        return sum(traffic.size for traffic in self._puts.values())

    # Deleted topics and groups

    def forget_topic(self, topic: str) -> None:
        self._puts.pop(topic, None)
        for table in self._pair_tables:
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: str) -> None:
        for table in self._pair_tables:
            for key in [key for key in table if key[1] == group]:
                del table[key]

    @property
    def _pair_tables(self) -> list[dict[tuple[str, str], Traffic]]:
        return [self._gets, *self._pairs.values()]

    # Sampling, once per second

    async def run(self) -> None:
        began = self._clock.monotonic()
        second = 0
        while True:
            late = self._clock.monotonic() - began - second
            # After a blocked event loop, the missed seconds are skipped, not caught up.
            passed = 1 + max(0, int(late))
            await self._clock.sleep(max(0.0, passed - late))
            before, second = second, second + passed
            self._sample_totals()
            for index, window in enumerate(WINDOWS):
                if before // window.seconds != second // window.seconds:
                    await self._sample_window(index)
            if before // _LATENCIES_SECONDS != second // _LATENCIES_SECONDS:
                self.put_latencies.start_minute()

    def _sample_totals(self) -> None:
        millis = self._clock.millis()
        self.store_stats.sample(Totals(millis, self.puts, self.found, self.missed, self.gets))
        today = self._date()
        if today != self._day:
            self._day = today
            self.yesterday, self.today = self.today, Morning(self.user_puts, self.user_gets)

    async def _sample_window(self, window: int) -> None:
        for name, traffic in self._broker.items():
            if name in _BROKER_TOTALS:
                # Counters of the whole broker count messages, not requests.
                traffic.messages = traffic.batched = getattr(self, _BROKER_TOTALS[name])
            traffic.sample(window)
        await self._sample_table(self._puts, window)
        for table in self._pair_tables:
            await self._sample_table(table, window)

    async def _sample_table(self, table: dict[K, Traffic], window: int) -> None:
        items = list(table.items())
        for first in range(0, len(items), _SAMPLES_PER_ITERATION):
            if first:
                await asyncio.sleep(0)
            for key, traffic in items[first : first + _SAMPLES_PER_ITERATION]:
                traffic.sample(window)
                if traffic.is_idle:
                    table.pop(key, None)

    def _date(self) -> date:
        return datetime.fromtimestamp(self._clock.millis() / 1000).date()
