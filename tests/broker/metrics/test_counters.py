"""The counters of a broker, on a clock that the test controls."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.broker.metrics import counters as module
from kerolox.broker.metrics.counters import BrokerStats, Morning
from kerolox.broker.metrics.windows import DAY, HOUR, MINUTE, WindowStats
from kerolox.runtime.clock import ManualClock

# Noon in UTC, so that tests which advance by an hour or so do not cross midnight in most time zones.
NOON = 1_700_049_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def statistics(clock: ManualClock) -> AsyncIterator[BrokerStats]:
    created = BrokerStats("cluster", lambda topic: topic.startswith("rmq_sys_"), clock)
    running = asyncio.create_task(created.run())
    yield created
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def window_stats(statistics: BrokerStats, name: str, key: str, window: int = MINUTE) -> WindowStats:
    found = statistics.find(name, key)
    assert found is not None, (name, key)
    traffic, member = found
    return traffic.window_stats(window, member)


async def test_puts_are_counted_by_topic_up_to_the_last_sample(statistics: BrokerStats, clock: ManualClock) -> None:
    for _ in range(20):
        statistics.put("orders", 2, 300, 0.0)
    await clock.advance(10)
    statistics.put("orders", 2, 300, 0.0)

    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders") == WindowStats(40, 4.0, 2.0)
    assert window_stats(statistics, "TOPIC_PUT_SIZE", "orders") == WindowStats(6000, 600.0, 300.0)
    assert statistics.put_rate("orders") == 4.0
    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders", HOUR).sum == 0


async def test_the_minute_window_drops_samples_after_six_intervals(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put("orders", 60, 1, 0.0)
    await clock.advance(60)
    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders").per_second == 1.0

    await clock.advance(10)

    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders") == WindowStats(0, 0.0, 0.0)


async def test_rates_after_idleness_are_averages_over_the_whole_minute(
    statistics: BrokerStats, clock: ManualClock
) -> None:
    statistics.put("orders", 1, 1, 0.0)
    await clock.advance(200)
    statistics.put("orders", 60, 1, 0.0)

    await clock.advance(10)

    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders") == WindowStats(60, 1.0, 60.0)


async def test_windows_of_an_hour_and_a_day_have_longer_intervals(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.got("orders", "group", 36, 720, 0.001)
    await clock.advance(3600)

    assert window_stats(statistics, "GROUP_GET_NUMS", "orders@group", MINUTE).sum == 0
    assert window_stats(statistics, "GROUP_GET_NUMS", "orders@group", HOUR) == WindowStats(36, 0.01, 36.0)
    assert window_stats(statistics, "GROUP_GET_SIZE", "orders@group", DAY).sum == 720
    assert window_stats(statistics, "GROUP_GET_LATENCY", "orders@group", DAY).sum == 1


async def test_counters_of_the_whole_broker_are_found_by_the_cluster_name(
    statistics: BrokerStats, clock: ManualClock
) -> None:
    statistics.put("orders", 3, 1, 0.0)
    statistics.put("rmq_sys_x", 4, 1, 0.0)
    statistics.got("orders", "group", 2, 1, 0.0)
    statistics.add("GROUP_ACK_NUMS", "orders", "group", 2)
    await clock.advance(10)

    assert window_stats(statistics, "BROKER_PUT_NUMS", "cluster").sum == 7
    assert window_stats(statistics, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "cluster").sum == 3
    assert window_stats(statistics, "BROKER_GET_NUMS", "cluster").sum == 2
    assert window_stats(statistics, "BROKER_ACK_NUMS", "cluster").sum == 2
    assert window_stats(statistics, "GROUP_ACK_NUMS", "orders@group").sum == 2
    assert statistics.find("BROKER_PUT_NUMS", "another") is None
    assert statistics.find("NO_SUCH_NAME", "cluster") is None


async def test_rates_cover_ten_seconds_a_minute_and_ten_minutes(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put("orders", 600, 1, 0.0)
    await clock.advance(30)
    assert [float(rate) for rate in statistics.store_stats.rates("put").split()] == [0.0, 20.0, 20.0]

    await clock.advance(570)
    statistics.got("orders", "group", 50, 1, 0.0)
    statistics.got("orders", "group", 0, 0, 0.0)
    await clock.advance(1)

    assert [float(rate) for rate in statistics.store_stats.rates("put").split()] == [0.0, 0.0, 0.0]
    assert statistics.store_stats.rates("transferred").split()[0] == "5.0"
    assert statistics.store_stats.rates("found", "missed").split()[0] == "0.2"


async def test_latencies_are_those_of_the_last_minute(statistics: BrokerStats, clock: ManualClock) -> None:
    for seconds in (0.0001, 0.0002, 0.003, 0.06, 12.0):
        statistics.put("orders", 1, 1, seconds)
    await clock.advance(60)

    distribution = dict(item.rsplit(":", 1) for item in statistics.put_latencies.distribution.split())
    assert {name: count for name, count in distribution.items() if count != "0"} == {
        "[<=0ms]": "2",
        "[0~10ms]": "1",
        "[50~100ms]": "1",
        "[10s~]": "1",
    }
    assert statistics.put_latencies.max_millis == 12_000
    assert (statistics.put_latencies.percentile(0.5), statistics.put_latencies.percentile(0.8)) == (3.0, 60.0)

    await clock.advance(60)
    assert statistics.put_latencies.percentile(0.999) == 0.0


async def test_latencies_below_a_millisecond_are_distinguished(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put_all("orders", 90, 1, 30_500)
    statistics.put_all("orders", 9, 1, 450_000)
    statistics.put("orders", 10, 1, 0.0019)
    await clock.advance(60)

    latencies = statistics.put_latencies
    assert [latencies.percentile(share) for share in (0.5, 0.99, 0.999)] == [0.03, 0.45, 1.9]
    assert latencies.distribution.startswith("[<=0ms]:99 [0~10ms]:1 [10~50ms]:0 ")
    assert (latencies.max_millis, latencies.requests, statistics.puts) == (1, 100, 109)


async def test_put_all_counts_like_single_puts(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put_all("orders", 3, 300, 2_000_000)
    statistics.put("orders", 2, 100, 0.004)
    await clock.advance(10)

    assert window_stats(statistics, "TOPIC_PUT_NUMS", "orders") == WindowStats(5, 0.5, 1.25)
    assert window_stats(statistics, "TOPIC_PUT_LATENCY", "orders") == WindowStats(10, 1.0, 2.5)
    assert statistics.puts == 5


async def test_totals_are_remembered_at_midnight(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put("orders", 5, 1, 0.0)
    await clock.advance(86_400)
    assert (statistics.yesterday, statistics.today) == (Morning(), Morning(5, 0))

    statistics.got("orders", "group", 2, 1, 0.0)
    await clock.advance(86_400)

    assert (statistics.yesterday, statistics.today) == (Morning(5, 0), Morning(5, 2))


async def test_counters_that_are_idle_for_a_day_are_dropped(statistics: BrokerStats, clock: ManualClock) -> None:
    statistics.put("orders", 1, 1, 0.0)
    statistics.got("orders", "group", 1, 1, 0.0)
    await clock.advance(23 * 3600)
    assert statistics.find("TOPIC_PUT_NUMS", "orders") is not None

    await clock.advance(3 * 3600)

    assert statistics.find("TOPIC_PUT_NUMS", "orders") is None
    assert statistics.find("GROUP_GET_NUMS", "orders@group") is None
    assert statistics.puts == 1


async def test_the_number_of_counters_is_limited(statistics: BrokerStats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRAFFICS_MAX", 2)
    for number in range(5):
        statistics.put(f"topic{number}", 1, 1, 0.0)

    assert statistics.puts == 5
    assert [statistics.find("TOPIC_PUT_NUMS", f"topic{number}") is None for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]


async def test_counters_of_deleted_topics_and_groups_are_dropped(statistics: BrokerStats) -> None:
    for topic in ("orders", "bills"):
        statistics.put(topic, 1, 1, 0.0)
        statistics.got(topic, "group", 1, 1, 0.0)
        statistics.add("SNDBCK_PUT_NUMS", topic, "other")

    statistics.forget_topic("orders")
    statistics.forget_group("other")

    assert statistics.find("TOPIC_PUT_NUMS", "orders") is None
    assert statistics.find("GROUP_GET_NUMS", "orders@group") is None
    assert statistics.find("GROUP_GET_NUMS", "bills@group") is not None
    assert statistics.find("SNDBCK_PUT_NUMS", "bills@other") is None
