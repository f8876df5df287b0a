"""Statistics of a consumer."""

from kerolox.client.consumer.statistics import SAMPLE_SECONDS, ConsumeStatistics
from kerolox.runtime.clock import ManualClock


async def test_rates_cover_the_last_minute_and_failures_the_last_hour() -> None:
    clock = ManualClock()
    statistics = ConsumeStatistics(clock)
    counts = statistics.of("orders")
    counts.failed = 5
    for _ in range(60):
        counts.pulls += 1
        counts.pulled += 100
        counts.calls += 50
        counts.consumed += 50
        counts.consume_seconds += 0.5
        await clock.advance(SAMPLE_SECONDS)
        statistics.sample()

    status = statistics.status()["orders"]

    assert status.consume_failed_msgs == 5
    assert status.consume_failed_tps == 0
    assert round(status.pull_tps) == 10
    assert round(status.consume_ok_tps) == 5
    assert round(status.consume_rt) == 10


def test_status_is_empty_before_the_first_count() -> None:
    statistics = ConsumeStatistics(ManualClock())
    statistics.of("orders")

    assert statistics.status()["orders"].consume_rt == 0
