"""What is told of popping, timers, transactions and of making topics and groups."""

from pathlib import Path

import pytest

from kerolox.errors import AnswerError
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.headers.broker import UpdateAndCreateSubscriptionGroup, UpdateAndCreateTopic
from tests.broker.brokers import BrokerFixture, running
from tests.broker.pop.pops import GROUP, INVISIBLE_MILLIS, Popper
from tests.broker.test_metrics import gathered, spread
from tests.broker.transactions.producers import COMMIT, ROLLBACK, half, producing

LOCAL = ("local", "disk")


async def timers(fixture: BrokerFixture, clock: ManualClock, seconds: float) -> None:
    """Lets time pass, second by second, as the timer does its work."""
    for _ in range(int(seconds)):
        await clock.advance(1)


async def test_checkpoints_and_acks_are_counted_on_their_way_through_the_revive_log(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        popper = Popper(fixture, clock)
        for number in range(2):
            await fixture.send("orders", b"%d" % number)
        (_, _), (message, receipt) = await popper.pop("orders", queue_id=0)
        await popper.ack("orders", receipt, message.queue_offset)

        written = await gathered(fixture, "rocketmq_pop_revive_in_message_total")
        await popper.advance(INVISIBLE_MILLIS / 1000 + 6)
        read = await gathered(fixture, "rocketmq_pop_revive_out_message_total")
        revived = await gathered(fixture, "rocketmq_pop_revive_retry_messages_total")
        lag = await gathered(fixture, "rocketmq_pop_revive_lag_milliseconds")
        latency = await gathered(fixture, "rocketmq_pop_revive_latency_milliseconds")
        open_checkpoints = await gathered(fixture, "rocketmq_pop_checkpoint_buffer_size")
        await fixture.broker.store.flusher.flush()
        fixture.broker.pop.progress.settle()
        offsets = await gathered(fixture, "rocketmq_pop_offset_buffer_size")

    queue_id = str(receipt.revive_queue_id)
    assert written == {("orders", GROUP, "CK", "PUT_OK"): 1, ("orders", GROUP, "ACK", "PUT_OK"): 1}
    assert read == {("orders", GROUP, queue_id, "CK"): 1, ("orders", GROUP, queue_id, "ACK"): 1}
    assert revived == {("orders", GROUP, "PUT_OK"): 1}
    assert {labels for labels, _ in lag.items()} == {(str(number),) for number in range(8)}
    assert set(lag.values()) == set(latency.values()) == {0}
    assert open_checkpoints == offsets == {(): 0}


async def test_what_the_revive_log_has_not_settled_is_its_lag(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, reviveInterval="60000") as fixture:
        popper = Popper(fixture, clock)
        await fixture.send("orders", b"x")
        ((_, receipt),) = await popper.pop("orders", queue_id=0)
        await timers(fixture, clock, INVISIBLE_MILLIS / 1000 + 3)

        lag = await gathered(fixture, "rocketmq_pop_revive_lag_milliseconds")
        latency = await gathered(fixture, "rocketmq_pop_revive_latency_milliseconds")

    queue = (str(receipt.revive_queue_id),)
    assert {labels: count for labels, count in lag.items() if count} == {queue: 1}
    assert 0 < latency[queue] <= 4_000


async def test_timer_messages_are_counted_in_and_out(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for seconds in (3, 30, 600):
            await fixture.send("orders", b"later", TIMER_DELAY_SEC=str(seconds))
        await timers(fixture, clock, 1)

        snapshot = await gathered(fixture, "rocketmq_timer_message_snapshot")
        waiting = await gathered(fixture, "rocketmq_timer_dequeue_lag")
        await timers(fixture, clock, 5)
        entered = await gathered(fixture, "rocketmq_timer_enqueue_total")
        delivered = await gathered(fixture, "rocketmq_timer_dequeue_total")
        left = await gathered(fixture, "rocketmq_timer_dequeue_lag")
        waits = await spread(fixture, "rocketmq_delay_message_latency_seconds")

    assert waiting == {LOCAL: 3}
    assert {labels[0]: count for labels, count in snapshot.items()} == {
        **dict.fromkeys(("300", "3600", "14400", "28800", "86400"), 0),
        "5": 1,
        "60": 1,
        "900": 1,
    }
    assert entered == {("orders", *LOCAL): 3}
    assert delivered == {("orders", *LOCAL): 1}
    assert left == {LOCAL: 2}
    assert waits == {("orders", *LOCAL): 3}


async def test_what_the_timer_has_not_entered_grows_old(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, timerStopEnqueue="true") as fixture:
        await fixture.send("orders", b"later", TIMER_DELAY_SEC="60")
        await timers(fixture, clock, 5)

        lag = await gathered(fixture, "rocketmq_timer_enqueue_lag")
        latency = await gathered(fixture, "rocketmq_timer_enqueue_latency_milliseconds")

    assert (lag, latency) == ({LOCAL: 1}, {LOCAL: 5_000})


async def test_ends_of_transactions_are_counted_by_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture, producing(fixture) as producer:
        for key, decision in (("a", COMMIT), ("b", COMMIT), ("c", ROLLBACK)):
            await producer.end(await producer.prepare(half(key=key)), decision)

        committed = await gathered(fixture, "rocketmq_commit_messages_total")
        rolled_back = await gathered(fixture, "rocketmq_rollback_messages_total")
        finished = await spread(fixture, "rocketmq_finish_message_latency_milliseconds")

    assert committed == {("orders",): 2}
    assert rolled_back == {("orders",): 1}
    assert finished == {("orders",): 2}


async def test_making_topics_and_groups_is_timed_by_whether_it_was_done(tmp_path: Path) -> None:
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

        topics = await spread(fixture, "rocketmq_topic_create_execution_time_milliseconds")
        groups = await spread(fixture, "rocketmq_consumer_group_create_execution_time_milliseconds")

    assert topics == {("success", "false"): 2, ("failure", "false"): 1}
    assert groups == {("success",): 1}


async def test_beyond_the_bound_topics_share_counters_and_histograms(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, metricsSeriesMax="1") as fixture:
        for number in range(3):
            await fixture.send(f"topic-{number}", b"later", TIMER_DELAY_SEC="600")
        await timers(fixture, clock, 1)

        entered = await gathered(fixture, "rocketmq_timer_enqueue_total")
        waits = await spread(fixture, "rocketmq_delay_message_latency_seconds")

    own = next(labels for labels in entered if labels[0] != "other")
    assert entered == {own: 1, ("other", *LOCAL): 2}
    assert waits == {own: 1, ("other", *LOCAL): 2}


async def test_the_histogram_of_puts_goes_on_over_the_minutes(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for _ in range(2):
            await fixture.send("orders", b"x")
            fixture.broker.statistics.latencies.turn()
        await fixture.send("orders", b"x")

        assert await spread(fixture, "kerolox_put_milliseconds") == {(): 3}
