"""Lag, in-flight and ready messages of groups, and their ages."""

from pathlib import Path

from kerolox.runtime.clock import ManualClock
from tests.broker.brokers import BrokerFixture, running
from tests.broker.metrics.test_exporter import commit, samples_of
from tests.broker.pop.pops import GROUP, Popper

PACKERS_LABELS = ("orders", "packers", "false", "false")
COUNTS = ("lag_messages", "inflight_messages", "ready_messages")
AGES = ("lag_latency_milliseconds", "queueing_latency_milliseconds")


async def values(
    fixture: BrokerFixture, names: tuple[str, ...], labels: tuple[str, ...] = PACKERS_LABELS
) -> list[float]:
    return [(await samples_of(fixture, f"rocketmq_consumer_{name}"))[labels] for name in names]


async def test_messages_that_were_pulled_and_not_committed_are_in_flight(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for number in range(10):
            await fixture.send("orders", b"%d" % number)
        commit(fixture, "orders", "packers", 0)

        assert await values(fixture, COUNTS) == [10, 0, 10]
        await fixture.pull("orders", 0, consumer_group="packers", max_msg_nums=6)
        assert await values(fixture, COUNTS) == [10, 6, 4]
        commit(fixture, "orders", "packers", 6)
        assert await values(fixture, COUNTS) == [4, 0, 4]
        await fixture.pull("orders", 6, consumer_group="packers")
        commit(fixture, "orders", "packers", 10)

        assert await values(fixture, COUNTS) == [0, 0, 0]
        assert await values(fixture, AGES) == [0, 0]


async def test_ages_are_those_of_the_first_message_not_consumed_and_not_delivered(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for body in (b"one", b"two"):
            await fixture.send("orders", body)
            await clock.advance(5)
        commit(fixture, "orders", "packers", 0)
        await fixture.pull("orders", 0, consumer_group="packers", max_msg_nums=1)

        assert await values(fixture, AGES) == [10_000, 5_000]


async def test_after_a_reset_nothing_behind_the_new_offset_counts_as_delivered(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for number in range(5):
            await fixture.send("orders", b"%d" % number)
        await fixture.pull("orders", 0, consumer_group="packers")
        commit(fixture, "orders", "packers", 5)

        fixture.broker.offsets.reset("packers", "orders", 0, 2)

        assert await values(fixture, COUNTS) == [3, 0, 3]


async def test_popped_messages_are_in_flight_until_they_are_acknowledged(tmp_path: Path) -> None:
    labels = ("orders", GROUP, "false", "false")
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        popper = Popper(fixture, clock)
        for number in range(3):
            await fixture.send("orders", b"%d" % number)
        popped = await popper.pop("orders", max_msg_nums=2, queue_id=0)

        assert await values(fixture, COUNTS, labels) == [3, 2, 1]
        for message, receipt in popped:
            await popper.ack("orders", receipt, message.queue_offset)

        assert await values(fixture, COUNTS, labels) == [1, 0, 1]


async def test_groups_beyond_the_series_limit_are_summed_up_as_other(tmp_path: Path) -> None:
    async with running(tmp_path, metricsSeriesMax="1") as fixture:
        await fixture.send("orders", b"x")
        for group in ("packers", "readers", "writers"):
            commit(fixture, "orders", group, 0)

        ready = await samples_of(fixture, "rocketmq_consumer_ready_messages")
        queueing = await samples_of(fixture, "rocketmq_consumer_queueing_latency_milliseconds")

    assert ready == {PACKERS_LABELS: 1, ("other", "other", "false", "false"): 2}
    assert list(queueing) == [PACKERS_LABELS]
