"""Statistics of brokers: messages in and out, by topic and group."""

from collections.abc import Mapping
from dataclasses import dataclass

from kerolox.admin.offsets import Offsets
from kerolox.admin.targets import Servers
from kerolox.admin.topics import Topics
from kerolox.client.resource_names import DLQ_PREFIX, RETRY_PREFIX
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, TopicNotFound
from kerolox.wire.bodies.offsets import BrokerStatsData
from kerolox.wire.headers.broker import ViewBrokerStatsData

# Java's names of statistics; their keys are a topic, or `topic@group`.
TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
GROUP_GET_NUMS = "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages of a topic and of one group that consumes it; `group` is None if there is no group."""

    topic: str
    group: str | None
    # None if it could not be queried.
    lag: int | None
    # Per second, over the last minute.
    in_tps: float
    out_tps: float
    in_day: int
    out_day: int


class Statistics:
    def __init__(self, servers: Servers, topics: Topics, offsets: Offsets) -> None:
        self._servers = servers
        self._topics = topics
        self._offsets = offsets

    async def of_broker(self, broker: str, name: str, key: str) -> BrokerStatsData | None:
        """Return a statistic of a broker by Java's name and key; None if the broker has no such statistic."""
        return await self._query(await self._servers.address(broker), name, key)

    async def all(self, *, topic: str | None = None) -> list[Traffic]:
        """Return the traffic of one topic, or of all topics but retry and dead letter topics, by topic and group."""
        names = [topic] if topic is not None else await self._topics.names()
        selected = [name for name in names if not name.startswith((RETRY_PREFIX, DLQ_PREFIX))]
        found = await self._servers.gather(selected, self._of_topic_if_any)
        return [line for lines in found for line in lines]

    async def _of_topic_if_any(self, topic: str) -> list[Traffic]:
        try:
            return await self.of_topic(topic)
        except TopicNotFound:
            # It has just been deleted, or is a name that NameServers list without queues.
            return []

    async def of_topic(self, topic: str) -> list[Traffic]:
        """Return the traffic of a topic, one entry for each group that consumes it."""
        brokers = await self._servers.brokers_of(topic)
        in_tps, in_day = await self._sum(brokers, TOPIC_PUT_NUMS, topic)
        lines: list[Traffic] = []
        for group in await self._topics.groups(topic):
            out_tps, out_day = await self._sum(brokers, GROUP_GET_NUMS, f"{topic}@{group}")
            lines.append(Traffic(topic, group, await self._lag(group, topic), in_tps, out_tps, in_day, out_day))
        return lines or [Traffic(topic, None, None, in_tps, 0.0, in_day, 0)]

    async def _lag(self, group: str, topic: str) -> int | None:
        try:
            return (await self._offsets.progress(group, topic)).lag
        except KeroloxError:
            return None

    async def _sum(self, brokers: Mapping[str, str], name: str, key: str) -> tuple[float, int]:
        found = await self._servers.each(name, brokers, lambda address: self._query(address, name, key))
        known = [data for data in found.values() if data is not None]
        return sum(data.stats_minute.tps for data in known), sum(_day(data) for data in known)

    async def _query(self, address: str, name: str, key: str) -> BrokerStatsData | None:
        try:
            reply = await self._servers.call(address, ViewBrokerStatsData(stats_name=name, stats_key=key))
        except AnswerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise
        return BrokerStatsData.decode(reply.body)


def _day(data: BrokerStatsData) -> int:
    """Return the count of the longest period available: a broker that has just started has no day yet."""
    return data.stats_day.sum or data.stats_hour.sum or data.stats_minute.sum
