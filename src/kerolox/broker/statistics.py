"""What a broker counts: messages in and out, by topic and by group, and how fast they come and go."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import NamedTuple, TypeVar

from kerolox.broker.rates import Latencies, Rates, Totals
from kerolox.broker.samples import MINUTE, WINDOWS, Traffic
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

# A bound the original does not have: so many topics, and pairs of topic and group, are counted one by one.
_TRAFFICS_MAX = 100_000
# So many are looked at in one turn of the loop.
_SLICE = 500
_LATENCIES_SECONDS = 60

K = TypeVar("K", str, tuple[str, str])

# By topic and group, what else can be counted: under the name of its pairs, and of the whole broker.
_PAIRS = {
    "GROUP_ACK_NUMS": "BROKER_ACK_NUMS",
    "GROUP_CK_NUMS": "BROKER_CK_NUMS",
    "SNDBCK_PUT_NUMS": None,
    "DLQ_PUT_NUMS": None,
    "SNDBCK2DLQ_TIMES": None,
}
# The original asks for this one by owner, topic, group and kind, with an @ between them.
_OWNED = "SNDBCK2DLQ_TIMES"
_TOTALS = {
    "BROKER_PUT_NUMS": "puts",
    "BROKER_GET_NUMS": "gets",
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": "user_puts",
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": "user_gets",
}
_PUT_MEMBERS = {"TOPIC_PUT_NUMS": "messages", "TOPIC_PUT_SIZE": "size", "TOPIC_PUT_LATENCY": "seconds"}
_GET_MEMBERS = {"GROUP_GET_NUMS": "messages", "GROUP_GET_SIZE": "size", "GROUP_GET_LATENCY": "seconds"}


class Morning(NamedTuple):
    """How many messages had come and gone at midnight."""

    put: int = 0
    got: int = 0


class Statistics(Service):
    """Where messages pass, `put` and `got` only add; the rest is done each second, a part at a time."""

    def __init__(self, cluster: str, is_system: Callable[[str], bool], clock: Clock) -> None:
        self._cluster = cluster
        self._is_system = is_system
        self._clock = clock
        self.boot_millis = clock.millis()
        self.rates = Rates(self.boot_millis)
        self.latencies = Latencies()
        self._fast, self._slow = self.latencies.fast, self.latencies.slow
        # Messages that went, and requests that found some, or none. Those that came are counted by how long it took.
        self.gets = self.found = self.missed = 0
        self._system_puts = self._system_gets = 0
        # Messages that came with another, so that requests can be told from messages.
        self._puts_batched = 0
        self.slowest_get_seconds = 0.0
        self.yesterday, self.today = Morning(), Morning()
        self._day = self._date()
        self._puts: dict[str, Traffic] = {}
        self._gets: dict[tuple[str, str], Traffic] = {}
        self._pairs: dict[str, dict[tuple[str, str], Traffic]] = {name: {} for name in _PAIRS}
        self._broker = {name: Traffic() for name in (*_TOTALS, *filter(None, _PAIRS.values()))}

    # Counting

    def put(self, topic: str, count: int, size: int, seconds: float) -> None:
        """Counts messages that one request has stored; `size` is what they take in the log."""
        try:
            traffic = self._puts[topic]
        except KeyError:
            traffic = self._make(self._puts, topic, topic)
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
        """Counts requests that have stored a message each; all took so many nanoseconds.

        Where messages pass fastest, integers spare it to make an integer.
        """
        try:
            traffic = self._puts[topic]
        except KeyError:
            traffic = self._make(self._puts, topic, topic)
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
        """Counts messages that one request was answered with, or that it found none."""
        if not count:
            self.missed += 1
            return
        self.found += 1
        traffic = self._gets.get((topic, group))
        if traffic is None:
            traffic = self._make(self._gets, (topic, group), topic)
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
        """Counts what is told by topic and group, under one of the names in _PAIRS."""
        table = self._pairs[name]
        traffic = table.get((topic, group)) or self._make(table, (topic, group), topic)
        traffic.messages += count
        traffic.batched += count - 1
        whole = _PAIRS[name]
        if whole is not None:
            self._broker[whole].messages += count
            self._broker[whole].batched += count

    def _make(self, table: dict[K, Traffic], key: K, topic: str) -> Traffic:
        traffic = Traffic(is_system=self._is_system(topic))
        # Beyond the bound it is a part of the whole broker's only.
        if len(table) < _TRAFFICS_MAX:
            table[key] = traffic
        return traffic

    # Telling

    def find(self, name: str, key: str) -> tuple[Traffic, str] | None:
        """Returns what tools ask for as `name` and `key`, and the member that they mean; None if nothing was counted.

        The key is a topic, or `topic@group`, or the cluster if it is about the whole broker.
        """
        if name == _OWNED:
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
        """Returns messages in a second, in the last minute."""
        traffic = self._puts.get(topic)
        return traffic.part(MINUTE, "messages").per_second if traffic else 0.0

    def get_rate(self, topic: str, group: str) -> float:
        traffic = self._gets.get((topic, group))
        return traffic.part(MINUTE, "messages").per_second if traffic else 0.0

    @property
    def incoming(self) -> Mapping[str, Traffic]:
        """What was put, by topic; who wants to keep it copies it."""
        return self._puts

    @property
    def outgoing(self) -> Mapping[tuple[str, str], Traffic]:
        """What was got, by topic and group."""
        return self._gets

    @property
    def dead(self) -> Mapping[tuple[str, str], Traffic]:
        """What went to dead letters, by the topic it was consumed from, and the group."""
        return self._pairs[_OWNED]

    @property
    def puts(self) -> int:
        """Messages that came."""
        return self.latencies.requests + self._puts_batched

    @property
    def user_puts(self) -> int:
        """Messages that came, without those to the broker's own topics."""
        return self.puts - self._system_puts

    @property
    def user_gets(self) -> int:
        return self.gets - self._system_gets

    @property
    def put_size(self) -> int:
        """Returns how many bytes those topics have taken that are counted now."""
        return sum(traffic.size for traffic in self._puts.values())

    # Forgetting

    def forget_topic(self, topic: str) -> None:
        self._puts.pop(topic, None)
        for table in self._by_pair:
            for key in [key for key in table if key[0] == topic]:
                del table[key]

    def forget_group(self, group: str) -> None:
        for table in self._by_pair:
            for key in [key for key in table if key[1] == group]:
                del table[key]

    @property
    def _by_pair(self) -> list[dict[tuple[str, str], Traffic]]:
        return [self._gets, *self._pairs.values()]

    # Each second

    async def run(self) -> None:
        began = self._clock.monotonic()
        second = 0
        while True:
            late = self._clock.monotonic() - began - second
            # What a loop that stood still has missed is not made up for.
            passed = 1 + max(0, int(late))
            await self._clock.sleep(max(0.0, passed - late))
            before, second = second, second + passed
            self._sample()
            for at, window in enumerate(WINDOWS):
                if before // window.seconds != second // window.seconds:
                    await self._look(at)
            if before // _LATENCIES_SECONDS != second // _LATENCIES_SECONDS:
                self.latencies.turn()

    def _sample(self) -> None:
        millis = self._clock.millis()
        self.rates.sample(Totals(millis, self.puts, self.found, self.missed, self.gets))
        today = self._date()
        if today != self._day:
            self._day = today
            self.yesterday, self.today = self.today, Morning(self.user_puts, self.user_gets)

    async def _look(self, at: int) -> None:
        for name, traffic in self._broker.items():
            if name in _TOTALS:
                # Of the whole broker, messages are told and no requests.
                traffic.messages = traffic.batched = getattr(self, _TOTALS[name])
            traffic.sample(at)
        await self._look_at(self._puts, at)
        for table in self._by_pair:
            await self._look_at(table, at)

    async def _look_at(self, table: dict[K, Traffic], at: int) -> None:
        items = list(table.items())
        for first in range(0, len(items), _SLICE):
            if first:
                await asyncio.sleep(0)
            for key, traffic in items[first : first + _SLICE]:
                traffic.sample(at)
                if traffic.is_idle:
                    table.pop(key, None)

    def _date(self) -> date:
        return datetime.fromtimestamp(self._clock.millis() / 1000).date()
