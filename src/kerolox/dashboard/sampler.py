"""Samples rates, latency, lag and disk usage for the charts, and keeps them for an hour."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from kerolox.admin import AdminClient, BrokerStatus
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.views.pagination import user_groups
from kerolox.errors import KeroloxError

log = logging.getLogger(__name__)

SAMPLES_MAX = 720
# The lag of a group takes a request to each of its brokers.
GROUPS_MAX = 50
BROKERS_MAX = 50
_CONCURRENT_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """Values by broker or group; those that did not answer are missing."""

    millis: int
    in_tps: Mapping[str, float] = field(default_factory=dict)
    out_tps: Mapping[str, float] = field(default_factory=dict)
    # 99th percentile of storing a message, in milliseconds.
    put_latency: Mapping[str, float] = field(default_factory=dict)
    # Round-trip time of one of our requests, in milliseconds.
    response_time: Mapping[str, float] = field(default_factory=dict)
    lag: Mapping[str, float] = field(default_factory=dict)
    disk: Mapping[str, float] = field(default_factory=dict)

    def series(self) -> dict[str, Mapping[str, float]]:
        return {
            "in": self.in_tps,
            "out": self.out_tps,
            "putLatency": self.put_latency,
            "answerTime": self.response_time,
            "lag": self.lag,
            "disk": self.disk,
        }


class Sampler:
    """Takes samples in the background, and keeps the last SAMPLES_MAX."""

    def __init__(self, admin: AdminClient, options: DashboardOptions) -> None:
        self._admin = admin
        self._clock = options.clock
        self._seconds = options.sample_seconds
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        # The error of the last attempt, if it failed.
        self.error: KeroloxError | None = None

    async def run(self) -> None:
        """Take samples until cancelled; an unreachable cluster leaves a gap."""
        while True:
            try:
                self.samples.append(await self._sample())
                self.error = None
            except KeroloxError as error:
                self.error = error
                log.debug("sampling failed: %s", error)
            except Exception:
                log.exception("sampling failed unexpectedly")
            await self._clock.sleep(self._seconds)

    def since(self, millis: int) -> list[Sample]:
        return [sample for sample in self.samples if sample.millis > millis]

    async def _sample(self) -> Sample:
        brokers = [it for it in (await self._admin.cluster.brokers())[:BROKERS_MAX] if it.error is None]
        names = {it.address: _name(it) for it in brokers}
        latency = {_name(it): value for it in brokers if (value := _number(it, "putLatency99")) is not None}
        disk = {_name(it): value for it in brokers if (value := _number(it, "commitLogDiskRatio")) is not None}
        return Sample(
            self._clock.millis(),
            {_name(it): it.in_tps for it in brokers},
            {_name(it): it.out_tps for it in brokers},
            latency,
            await self._response_times(names),
            await self._lags(),
            {name: value for name, value in disk.items() if value >= 0},
        )

    async def _response_times(self, names: Mapping[str, str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for address, name in names.items():
            begin = self._clock.monotonic()
            try:
                await self._admin.cluster.runtime_info(address)
            except KeroloxError:
                continue
            found[name] = round((self._clock.monotonic() - begin) * 1000, 2)
        return found

    async def _lags(self) -> dict[str, float]:
        wanted = user_groups(await self._groups())[:GROUPS_MAX]
        free = asyncio.Semaphore(_CONCURRENT_REQUESTS)

        async def lag_of(group: str) -> float | None:
            async with free:
                try:
                    return float((await self._admin.offsets.progress(group)).lag)
                except KeroloxError:
                    return None

        lags = await asyncio.gather(*map(lag_of, wanted))
        return {group: lag for group, lag in zip(wanted, lags, strict=True) if lag is not None}

    async def _groups(self) -> list[str]:
        try:
            return await self._admin.groups.names()
        except KeroloxError:
            # A broker does not answer. Groups that were ever online have a retry topic.
            topics = await self._admin.topics.names()
            return [topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)]


def _name(broker: BrokerStatus) -> str:
    return broker.name if broker.is_master else f"{broker.name}/{broker.broker_id}"


def _number(broker: BrokerStatus, key: str) -> float | None:
    try:
        return float(broker.info[key])
    except (KeyError, ValueError):
        return None
