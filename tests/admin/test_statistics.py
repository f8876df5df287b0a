"""Statistics of brokers."""

from kerolox.admin import AdminClient
from kerolox.admin.statistics import TOPIC_PUT_NUMS, _day
from kerolox.testing import Cluster
from kerolox.wire.bodies.offsets import BrokerStatsData, StatsItem
from tests.admin.clients import GROUP, QUEUE, TOPIC, prepare


async def test_traffic_is_listed_by_topic_and_group(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
    await admin.topics.create("quiet")
    await admin.offsets.commit(GROUP, QUEUE, 1)

    lines = {(line.topic, line.group): line for line in await admin.statistics.all()}

    assert (lines[TOPIC, GROUP].lag, lines["quiet", None].lag) == (2, None)
    assert not any(topic.startswith("%RETRY%") for topic, _ in lines)
    assert [line.group for line in await admin.statistics.all(topic=TOPIC)] == [GROUP]
    assert await admin.statistics.all(topic="unknown") == []


async def test_an_unknown_statistic_is_none(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    assert await admin.statistics.of_broker("broker-a", TOPIC_PUT_NUMS, TOPIC) is not None
    assert await admin.statistics.of_broker("broker-a", TOPIC_PUT_NUMS, "unknown") is None


def test_the_day_of_a_young_broker_is_its_longest_period() -> None:
    none, some = StatsItem(avgpt=0, sum=0, tps=0), StatsItem(avgpt=1, sum=7, tps=1)

    assert _day(BrokerStatsData(stats_day=none, stats_hour=none, stats_minute=some)) == 7
    assert _day(BrokerStatsData(stats_day=some, stats_hour=none, stats_minute=none)) == 7
