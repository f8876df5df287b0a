"""What a broker counts, on a clock of the test's own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.broker import statistics as module
from kerolox.broker.samples import DAY, HOUR, MINUTE, Part
from kerolox.broker.statistics import Morning, Statistics
from kerolox.runtime.clock import ManualClock

# Noon, wherever this runs: ten hours from any midnight are not reached by an hour.
NOON = 1_700_049_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def statistics(clock: ManualClock) -> AsyncIterator[Statistics]:
    counted = Statistics("cluster", lambda topic: topic.startswith("rmq_sys_"), clock)
    running = asyncio.create_task(counted.run())
    yield counted
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def part(statistics: Statistics, name: str, key: str, window: int = MINUTE) -> Part:
    found = statistics.find(name, key)
    assert found is not None, (name, key)
    traffic, member = found
    return traffic.part(window, member)


async def test_what_comes_is_told_by_topic_as_of_the_last_look(statistics: Statistics, clock: ManualClock) -> None:
    for _ in range(20):
        statistics.put("orders", 2, 300, 0.0)
    await clock.advance(10)
    statistics.put("orders", 2, 300, 0.0)

    assert part(statistics, "TOPIC_PUT_NUMS", "orders") == Part(40, 4.0, 2.0)
    assert part(statistics, "TOPIC_PUT_SIZE", "orders") == Part(6000, 600.0, 300.0)
    assert statistics.put_rate("orders") == 4.0
    assert part(statistics, "TOPIC_PUT_NUMS", "orders", HOUR).sum == 0


async def test_a_minute_has_six_intervals_and_then_forgets(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 60, 1, 0.0)
    await clock.advance(60)
    assert part(statistics, "TOPIC_PUT_NUMS", "orders").per_second == 1.0

    await clock.advance(10)

    assert part(statistics, "TOPIC_PUT_NUMS", "orders") == Part(0, 0.0, 0.0)


async def test_one_that_was_idle_is_told_over_the_whole_minute(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 1, 1, 0.0)
    await clock.advance(200)
    statistics.put("orders", 60, 1, 0.0)

    await clock.advance(10)

    assert part(statistics, "TOPIC_PUT_NUMS", "orders") == Part(60, 1.0, 60.0)


async def test_hours_and_days_are_looked_at_more_rarely(statistics: Statistics, clock: ManualClock) -> None:
    statistics.got("orders", "group", 36, 720, 0.001)
    await clock.advance(3600)

    assert part(statistics, "GROUP_GET_NUMS", "orders@group", MINUTE).sum == 0
    assert part(statistics, "GROUP_GET_NUMS", "orders@group", HOUR) == Part(36, 0.01, 36.0)
    assert part(statistics, "GROUP_GET_SIZE", "orders@group", DAY).sum == 720
    assert part(statistics, "GROUP_GET_LATENCY", "orders@group", DAY).sum == 1


async def test_the_whole_broker_is_told_by_its_cluster(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 3, 1, 0.0)
    statistics.put("rmq_sys_x", 4, 1, 0.0)
    statistics.got("orders", "group", 2, 1, 0.0)
    statistics.add("GROUP_ACK_NUMS", "orders", "group", 2)
    await clock.advance(10)

    assert part(statistics, "BROKER_PUT_NUMS", "cluster").sum == 7
    assert part(statistics, "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "cluster").sum == 3
    assert part(statistics, "BROKER_GET_NUMS", "cluster").sum == 2
    assert part(statistics, "BROKER_ACK_NUMS", "cluster").sum == 2
    assert part(statistics, "GROUP_ACK_NUMS", "orders@group").sum == 2
    assert statistics.find("BROKER_PUT_NUMS", "another") is None
    assert statistics.find("NO_SUCH_NAME", "cluster") is None


async def test_rates_are_of_ten_seconds_a_minute_and_ten_minutes(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 600, 1, 0.0)
    await clock.advance(30)
    assert [float(rate) for rate in statistics.rates.told("put").split()] == [0.0, 20.0, 20.0]

    await clock.advance(570)
    statistics.got("orders", "group", 50, 1, 0.0)
    statistics.got("orders", "group", 0, 0, 0.0)
    await clock.advance(1)

    assert [float(rate) for rate in statistics.rates.told("put").split()] == [0.0, 0.0, 0.0]
    assert statistics.rates.told("transferred").split()[0] == "5.0"
    assert statistics.rates.told("found", "missed").split()[0] == "0.2"


async def test_latencies_are_those_of_the_last_minute(statistics: Statistics, clock: ManualClock) -> None:
    for seconds in (0.0001, 0.0002, 0.003, 0.06, 12.0):
        statistics.put("orders", 1, 1, seconds)
    await clock.advance(60)

    told = dict(item.rsplit(":", 1) for item in statistics.latencies.distribution.split())
    assert {name: count for name, count in told.items() if count != "0"} == {
        "[<=0ms]": "2",
        "[0~10ms]": "1",
        "[50~100ms]": "1",
        "[10s~]": "1",
    }
    assert statistics.latencies.max_millis == 12_000
    assert (statistics.latencies.percentile(0.5), statistics.latencies.percentile(0.8)) == (3.0, 60.0)

    await clock.advance(60)
    assert statistics.latencies.percentile(0.999) == 0.0


async def test_latencies_of_less_than_a_millisecond_are_told_apart(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put_all("orders", 90, 1, 30_500)
    statistics.put_all("orders", 9, 1, 450_000)
    statistics.put("orders", 10, 1, 0.0019)
    await clock.advance(60)

    latencies = statistics.latencies
    assert [latencies.percentile(share) for share in (0.5, 0.99, 0.999)] == [0.03, 0.45, 1.9]
    assert latencies.distribution.startswith("[<=0ms]:99 [0~10ms]:1 [10~50ms]:0 ")
    assert (latencies.max_millis, latencies.requests, statistics.puts) == (1, 100, 109)


async def test_requests_that_passed_fast_are_counted_like_others(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put_all("orders", 3, 300, 2_000_000)
    statistics.put("orders", 2, 100, 0.004)
    await clock.advance(10)

    assert part(statistics, "TOPIC_PUT_NUMS", "orders") == Part(5, 0.5, 1.25)
    assert part(statistics, "TOPIC_PUT_LATENCY", "orders") == Part(10, 1.0, 2.5)
    assert statistics.puts == 5


async def test_at_midnight_the_totals_become_those_of_the_morning(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 5, 1, 0.0)
    await clock.advance(86_400)
    assert (statistics.yesterday, statistics.today) == (Morning(), Morning(5, 0))

    statistics.got("orders", "group", 2, 1, 0.0)
    await clock.advance(86_400)

    assert (statistics.yesterday, statistics.today) == (Morning(5, 0), Morning(5, 2))


async def test_what_is_idle_for_a_day_is_forgotten(statistics: Statistics, clock: ManualClock) -> None:
    statistics.put("orders", 1, 1, 0.0)
    statistics.got("orders", "group", 1, 1, 0.0)
    await clock.advance(23 * 3600)
    assert statistics.find("TOPIC_PUT_NUMS", "orders") is not None

    await clock.advance(3 * 3600)

    assert statistics.find("TOPIC_PUT_NUMS", "orders") is None
    assert statistics.find("GROUP_GET_NUMS", "orders@group") is None
    assert statistics.puts == 1


async def test_there_is_an_end_to_what_is_counted_one_by_one(
    statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_who_is_deleted_is_no_longer_told(statistics: Statistics) -> None:
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
