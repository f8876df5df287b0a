"""Metrics of pop, timers, transactions, and of creating topics and groups."""

from pathlib import Path

import pytest

from kerolox.errors import AnswerError
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.headers.broker import UpdateAndCreateSubscriptionGroup, UpdateAndCreateTopic
from tests.broker.brokers import BrokerFixture, running
from tests.broker.metrics.test_exporter import histogram_counts, samples_of
from tests.broker.pop.pops import GROUP, INVISIBLE_MILLIS, Popper
from tests.broker.transactions.producers import COMMIT, ROLLBACK, half, producing

LOCAL = ("local", "disk")


async def run_timers(fixture: BrokerFixture, clock: ManualClock, seconds: float) -> None:
    """Advance the clock second by second, so that the timer runs in between."""
    for _ in range(int(seconds)):
        await clock.advance(1)


async def test_checkpoints_and_acks_are_counted_when_written_to_and_read_from_the_revive_topic(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        popper = Popper(fixture, clock)
        for number in range(2):
            await fixture.send("orders", b"%d" % number)
        (_, _), (message, receipt) = await popper.pop("orders", queue_id=0)
        await popper.ack("orders", receipt, message.queue_offset)

        written = await samples_of(fixture, "rocketmq_pop_revive_in_message_total")
        await popper.advance(INVISIBLE_MILLIS / 1000 + 6)
        read = await samples_of(fixture, "rocketmq_pop_revive_out_message_total")
        revived = await samples_of(fixture, "rocketmq_pop_revive_retry_messages_total")
        lag = await samples_of(fixture, "rocketmq_pop_revive_lag_milliseconds")
        latency = await samples_of(fixture, "rocketmq_pop_revive_latency_milliseconds")
        open_checkpoints = await samples_of(fixture, "rocketmq_pop_checkpoint_buffer_size")
        await fixture.broker.store.flusher.flush()
        fixture.broker.pop.offsets.settle()
        offsets = await samples_of(fixture, "rocketmq_pop_offset_buffer_size")

    queue_id = str(receipt.revive_queue_id)
    assert written == {("orders", GROUP, "CK", "PUT_OK"): 1, ("orders", GROUP, "ACK", "PUT_OK"): 1}
    assert read == {("orders", GROUP, queue_id, "CK"): 1, ("orders", GROUP, queue_id, "ACK"): 1}
    assert revived == {("orders", GROUP, "PUT_OK"): 1}
    assert {labels for labels, _ in lag.items()} == {(str(number),) for number in range(8)}
    assert set(lag.values()) == set(latency.values()) == {0}
    assert open_checkpoints == offsets == {(): 0}


async def test_unprocessed_messages_of_the_revive_topic_are_its_lag(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, reviveInterval="60000") as fixture:
        popper = Popper(fixture, clock)
        await fixture.send("orders", b"x")
        ((_, receipt),) = await popper.pop("orders", queue_id=0)
        await run_timers(fixture, clock, INVISIBLE_MILLIS / 1000 + 3)

        lag = await samples_of(fixture, "rocketmq_pop_revive_lag_milliseconds")
        latency = await samples_of(fixture, "rocketmq_pop_revive_latency_milliseconds")

    queue = (str(receipt.revive_queue_id),)
    assert {labels: count for labels, count in lag.items() if count} == {queue: 1}
    assert 0 < latency[queue] <= 4_000


async def test_timer_messages_are_counted_when_enqueued_and_dequeued(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for seconds in (3, 30, 600):
            await fixture.send("orders", b"later", TIMER_DELAY_SEC=str(seconds))
        await run_timers(fixture, clock, 1)

        snapshot = await samples_of(fixture, "rocketmq_timer_message_snapshot")
        waiting = await samples_of(fixture, "rocketmq_timer_dequeue_lag")
        await run_timers(fixture, clock, 5)
        enqueued = await samples_of(fixture, "rocketmq_timer_enqueue_total")
        dequeued = await samples_of(fixture, "rocketmq_timer_dequeue_total")
        still_waiting = await samples_of(fixture, "rocketmq_timer_dequeue_lag")
        delays = await histogram_counts(fixture, "rocketmq_delay_message_latency_seconds")

    assert waiting == {LOCAL: 3}
    assert {labels[0]: count for labels, count in snapshot.items()} == {
        **dict.fromkeys(("300", "3600", "14400", "28800", "86400"), 0),
        "5": 1,
        "60": 1,
        "900": 1,
    }
    assert enqueued == {("orders", *LOCAL): 3}
    assert dequeued == {("orders", *LOCAL): 1}
    assert still_waiting == {LOCAL: 2}
    assert delays == {("orders", *LOCAL): 3}


async def test_messages_that_the_timer_has_not_enqueued_are_its_lag(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, timerStopEnqueue="true") as fixture:
        await fixture.send("orders", b"later", TIMER_DELAY_SEC="60")
        await run_timers(fixture, clock, 5)

        lag = await samples_of(fixture, "rocketmq_timer_enqueue_lag")
        latency = await samples_of(fixture, "rocketmq_timer_enqueue_latency_milliseconds")

    assert (lag, latency) == ({LOCAL: 1}, {LOCAL: 5_000})


async def test_commits_and_rollbacks_are_counted_by_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture, producing(fixture) as producer:
        for key, decision in (("a", COMMIT), ("b", COMMIT), ("c", ROLLBACK)):
            await producer.end(await producer.prepare(half(key=key)), decision)

        committed = await samples_of(fixture, "rocketmq_commit_messages_total")
        rolled_back = await samples_of(fixture, "rocketmq_rollback_messages_total")
        finished = await histogram_counts(fixture, "rocketmq_finish_message_latency_milliseconds")

    assert committed == {("orders",): 2}
    assert rolled_back == {("orders",): 1}
    assert finished == {("orders",): 2}


async def test_creating_topics_and_groups_is_timed_by_success_or_failure(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for topic, perm in (("orders", 6), ("stock", 6), ("bad", 99)):
            request = UpdateAndCreateTopic(
                topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=perm,
                topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
            )  # fmt: skip
            if perm == 99:
                with pytest.raises(AnswerError):
                    await fixture.call(request)
            else:
                await fixture.call(request)
        group = SubscriptionGroupConfig(group_name="packers")
        await fixture.call(UpdateAndCreateSubscriptionGroup(), group.encode())

        topics = await histogram_counts(fixture, "rocketmq_topic_create_execution_time_milliseconds")
        groups = await histogram_counts(fixture, "rocketmq_consumer_group_create_execution_time_milliseconds")

    assert topics == {("success", "false"): 2, ("failure", "false"): 1}
    assert groups == {("success",): 1}


async def test_topics_beyond_the_series_limit_share_counters_and_histograms(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, metricsSeriesMax="1") as fixture:
        for number in range(3):
            await fixture.send(f"topic-{number}", b"later", TIMER_DELAY_SEC="600")
        await run_timers(fixture, clock, 1)

        enqueued = await samples_of(fixture, "rocketmq_timer_enqueue_total")
        delays = await histogram_counts(fixture, "rocketmq_delay_message_latency_seconds")

    own = next(labels for labels in enqueued if labels[0] != "other")
    assert enqueued == {own: 1, ("other", *LOCAL): 2}
    assert delays == {own: 1, ("other", *LOCAL): 2}


async def test_the_histogram_of_puts_is_cumulative_over_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for _ in range(2):
            await fixture.send("orders", b"x")
            fixture.broker.statistics.put_latencies.start_minute()
        await fixture.send("orders", b"x")

        assert await histogram_counts(fixture, "kerolox_put_milliseconds") == {(): 3}
