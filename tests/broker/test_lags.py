"""What groups have not consumed, what of that they were given, and how old it is."""

from pathlib import Path

from kerolox.runtime.clock import ManualClock
from tests.broker.brokers import BrokerFixture, running
from tests.broker.pop.pops import GROUP, Popper
from tests.broker.test_metrics import commit, gathered

OF_PACKERS = ("orders", "packers", "false", "false")
COUNTED = ("lag_messages", "inflight_messages", "ready_messages")
AGED = ("lag_latency_milliseconds", "queueing_latency_milliseconds")


async def told(fixture: BrokerFixture, names: tuple[str, ...], labels: tuple[str, ...] = OF_PACKERS) -> list[float]:
    return [(await gathered(fixture, f"rocketmq_consumer_{name}"))[labels] for name in names]


async def test_what_was_pulled_and_not_committed_is_in_flight(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for number in range(10):
            await fixture.send("orders", b"%d" % number)
        commit(fixture, "orders", "packers", 0)

        assert await told(fixture, COUNTED) == [10, 0, 10]
        await fixture.pull("orders", 0, consumer_group="packers", max_msg_nums=6)
        assert await told(fixture, COUNTED) == [10, 6, 4]
        commit(fixture, "orders", "packers", 6)
        assert await told(fixture, COUNTED) == [4, 0, 4]
        await fixture.pull("orders", 6, consumer_group="packers")
        commit(fixture, "orders", "packers", 10)

        assert await told(fixture, COUNTED) == [0, 0, 0]
        assert await told(fixture, AGED) == [0, 0]


async def test_ages_are_those_of_the_first_not_consumed_and_the_first_not_given(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        for body in (b"one", b"two"):
            await fixture.send("orders", body)
            await clock.advance(5)
        commit(fixture, "orders", "packers", 0)
        await fixture.pull("orders", 0, consumer_group="packers", max_msg_nums=1)

        assert await told(fixture, AGED) == [10_000, 5_000]


async def test_a_group_that_is_to_go_back_was_given_nothing_after_that(tmp_path: Path) -> None:
    async with running(tmp_path) as fixture:
        for number in range(5):
            await fixture.send("orders", b"%d" % number)
        await fixture.pull("orders", 0, consumer_group="packers")
        commit(fixture, "orders", "packers", 5)

        fixture.broker.offsets.reset("packers", "orders", 0, 2)

        assert await told(fixture, COUNTED) == [3, 0, 3]


async def test_what_was_popped_is_in_flight_until_it_is_acknowledged(tmp_path: Path) -> None:
    labels = ("orders", GROUP, "false", "false")
    clock = ManualClock()
    async with running(tmp_path, clock) as fixture:
        popper = Popper(fixture, clock)
        for number in range(3):
            await fixture.send("orders", b"%d" % number)
        popped = await popper.pop("orders", max_msg_nums=2, queue_id=0)

        assert await told(fixture, COUNTED, labels) == [3, 2, 1]
        for message, receipt in popped:
            await popper.ack("orders", receipt, message.queue_offset)

        assert await told(fixture, COUNTED, labels) == [1, 0, 1]


async def test_beyond_the_bound_groups_are_told_together(tmp_path: Path) -> None:
    async with running(tmp_path, metricsSeriesMax="1") as fixture:
        await fixture.send("orders", b"x")
        for group in ("packers", "readers", "writers"):
            commit(fixture, "orders", group, 0)

        ready = await gathered(fixture, "rocketmq_consumer_ready_messages")
        queueing = await gathered(fixture, "rocketmq_consumer_queueing_latency_milliseconds")

    assert ready == {OF_PACKERS: 1, ("other", "other", "false", "false"): 2}
    assert list(queueing) == [OF_PACKERS]
