"""Jumps of the wall clock: leases, invisible times and transactions follow the present clock."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.queues import MessageQueue
from tests.broker.brokers import BrokerFixture, running
from tests.broker.pop.pops import INVISIBLE_MILLIS, Popper
from tests.broker.transactions.producers import half, producing, until

MINUTE, HOUR, YEARS = 60, 3600, 10 * 365 * 86_400
BOTH_WAYS = [MINUTE, -MINUTE, HOUR, -HOUR, YEARS, -YEARS]
INVISIBLE_SECONDS = INVISIBLE_MILLIS / 1000
SETTINGS = {"transactionCheckInterval": "3600000"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store", clock, **SETTINGS) as started:
        yield started


@pytest.mark.parametrize("seconds", BOTH_WAYS)
async def test_clients_and_locks_expire_by_the_monotonic_clock(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    queue = MessageQueue("broker-a", 0, "orders")
    await broker.heartbeat(consumes={"group": ["orders"]})
    broker.broker.locks.lock("group", "c", [queue])
    clock.step(seconds)
    await clock.advance(50)
    assert "group" in broker.broker.clients.consumers
    assert broker.broker.locks.lock("group", "other", [queue]) == []

    await clock.advance(90)

    assert "group" not in broker.broker.clients.consumers
    assert broker.broker.locks.lock("group", "other", [queue]) == [queue]


@pytest.mark.parametrize("seconds", BOTH_WAYS)
async def test_messages_popped_before_a_clock_jump_are_revived_unless_acked(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    for number in range(4):
        await broker.send("orders", b"%d" % number, number)
    popper = Popper(broker, clock)
    popped = await popper.pop("orders")
    for message, receipt in popped:
        if message.body in (b"0", b"1"):
            await popper.ack("orders", receipt, message.queue_offset)
    await popper.advance(1)
    await _step(broker, clock, seconds)
    bodies: list[bytes] = []
    for _ in range(4):
        await popper.advance(INVISIBLE_SECONDS)
        for message, receipt in await popper.pop("orders"):
            bodies.append(message.body)
            await popper.ack("orders", receipt, message.queue_offset)

    assert sorted(bodies) == [b"2", b"3"]


@pytest.mark.parametrize("seconds", [MINUTE, HOUR, YEARS])
async def test_an_ack_after_the_clock_was_set_back_is_effective(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    clock.step(seconds)
    await broker.send("orders", b"acked")
    popper = Popper(broker, clock)
    ((message, receipt),) = await popper.pop("orders")
    await popper.advance(2)
    await _step(broker, clock, -seconds)
    await popper.advance(2)
    await popper.ack("orders", receipt, message.queue_offset)
    for _ in range(5):
        await popper.advance(INVISIBLE_SECONDS)
        assert await popper.bodies("orders") == []


@pytest.mark.parametrize("seconds", [MINUTE, HOUR, YEARS])
async def test_a_message_with_a_changed_invisible_time_is_revived_after_the_clock_was_set_back(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    clock.step(seconds)
    await broker.send("orders", b"slow")
    popper = Popper(broker, clock)
    ((_, receipt),) = await popper.pop("orders")
    await popper.advance(2)
    await _step(broker, clock, -seconds)
    await popper.advance(2)
    await popper.change("orders", receipt, INVISIBLE_MILLIS)
    bodies: list[bytes] = []
    for _ in range(4):
        await popper.advance(INVISIBLE_SECONDS)
        bodies += await popper.bodies("orders", invisible_time=600_000)
    assert bodies == [b"slow"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("seconds", [MINUTE, HOUR, YEARS])
async def test_a_queue_popped_in_order_is_not_blocked_by_a_clock_that_was_ahead(
    tmp_path: Path, clock: ManualClock, seconds: int, is_restarted: bool
) -> None:
    async with running(tmp_path / "store", clock) as broker:
        clock.step(seconds)
        await broker.send("orders", b"first")
        popper = Popper(broker, clock)
        assert await popper.bodies("orders", queue_id=0, order=True, attempt_id="a") == [b"first"]
        clock.step(-seconds)
        if not is_restarted:
            await _assert_visible_after_invisible_time(popper)
    if is_restarted:
        async with running(tmp_path / "store", clock) as broker:
            await _assert_visible_after_invisible_time(Popper(broker, clock))


async def _step(broker: BrokerFixture, clock: ManualClock, seconds: int) -> None:
    """Step the clock, and wait until the timer has followed it: a thread may still write its files."""
    clock.step(seconds)
    async with asyncio.timeout(10):
        while broker.broker.timer.wheel.read_time > clock.millis():
            broker.broker.timer.run_once()
            await asyncio.sleep(0)


async def _assert_visible_after_invisible_time(popper: Popper) -> None:
    assert await popper.bodies("orders", queue_id=0, order=True, attempt_id="b") == []
    await popper.advance(INVISIBLE_SECONDS - 1)
    assert await popper.bodies("orders", queue_id=0, order=True, attempt_id="b") == []
    await popper.advance(2)
    assert await popper.bodies("orders", queue_id=0, order=True, attempt_id="b") == [b"first"]


@pytest.mark.parametrize("seconds", [MINUTE, HOUR, YEARS])
async def test_no_transaction_is_discarded_because_the_clock_is_ahead(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    async with producing(broker) as producer:
        await producer.prepare(half(born=clock.millis()), b"paid")
        clock.step(seconds)
        await broker.broker.transactions.checker.check()
        await until(lambda: len(producer.checks) == 1)
    assert broker.broker.topics.get(CHECK_MAX_TOPIC) is None


@pytest.mark.parametrize("seconds", [MINUTE, HOUR, YEARS])
async def test_transactions_are_checked_after_the_clock_was_set_back(
    broker: BrokerFixture, clock: ManualClock, seconds: int
) -> None:
    async with producing(broker) as producer:
        clock.step(seconds)
        await producer.prepare(half(key="K1", born=clock.millis()), b"while ahead")
        clock.step(-seconds)
        await producer.prepare(half(key="K2", born=clock.millis()), b"after")
        await clock.advance(10)
        await broker.broker.transactions.checker.check()
        await until(lambda: len(producer.checks) == 2)
    assert len(await broker.messages(HALF_TOPIC)) == 4


async def test_timed_messages_are_delivered_after_the_clock_was_ten_years_ahead(
    broker: BrokerFixture, clock: ManualClock
) -> None:
    clock.step(YEARS)
    await _advance(clock, 20)
    await _step(broker, clock, -YEARS)
    await _advance(clock, 2)
    await broker.send("orders", b"later", UNIQ_KEY="later", TIMER_DELAY_SEC="5")
    await _advance(clock, 7)
    assert [message.body for message in await broker.messages("orders")] == [b"later"]


async def _advance(clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds * 10):
        await clock.advance(0.1)
        await asyncio.sleep(0)
