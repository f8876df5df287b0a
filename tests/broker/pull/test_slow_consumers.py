"""How far behind groups are, and protection from slow ones."""

from pathlib import Path

import pytest

from kerolox.broker.pull import slow_consumers as module
from kerolox.errors import AnswerError, NoPermission
from kerolox.runtime.clock import ManualClock
from tests.broker.brokers import BrokerFixture, running

_PROTECTION_SECONDS = 180


async def test_a_pull_records_how_far_behind_the_group_is(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as broker:
        slow_consumers = broker.broker.slow_consumers
        for body in (b"one", b"two", b"three"):
            await broker.send("orders", body)
        await clock.advance(2)

        await broker.pull("orders", 0, max_msg_nums=1)
        first = slow_consumers.bytes_behind("orders", "group", 0)
        assert slow_consumers.age_millis("orders", "group", 0) == 2000
        await broker.pull("orders", 1)
        last = slow_consumers.bytes_behind("orders", "group", 0)
        with pytest.raises(AnswerError, match="OFFSET_OVERFLOW_ONE"):
            await broker.pull("orders", 3)

        assert first == broker.broker.store.log.end_offset
        assert last is not None
        # As in Java, the message's own record counts.
        assert 0 < last < first / 2
        assert (slow_consumers.bytes_behind("orders", "group", 0), slow_consumers.age_millis("orders", "group", 0)) == (
            0,
            0,
        )
        assert (slow_consumers.bytes_behind("orders", "other", 0), slow_consumers.age_millis("orders", "other", 0)) == (
            None,
            None,
        )


async def test_a_group_that_is_too_far_behind_may_not_consume_if_configured(tmp_path: Path) -> None:
    clock = ManualClock()
    changes = {"disableConsumeIfConsumerReadSlowly": "true", "consumerFallbehindThreshold": "300"}
    async with running(tmp_path, clock, **changes) as broker:
        for number in range(4):
            await broker.send("orders", b"%d" % number)
        await broker.pull("orders", 0, max_msg_nums=1)
        await broker.pull("orders", 3, consumer_group="quick")

        await clock.advance(_PROTECTION_SECONDS)

        with pytest.raises(NoPermission, match="subscription group no permission, group"):
            await broker.pull("orders", 1)
        assert (await broker.pull("orders", 3, consumer_group="quick")).body


async def test_slow_groups_may_consume_by_default(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock, consumerFallbehindThreshold="0") as broker:
        await broker.send("orders", b"one")
        await broker.pull("orders", 0)

        await clock.advance(_PROTECTION_SECONDS)

        assert (await broker.pull("orders", 0)).body


async def test_the_number_of_recorded_positions_is_limited(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POSITIONS_MAX", 1)
    await broker.send("orders", b"one")
    for group in ("a", "b"):
        await broker.pull("orders", 0, consumer_group=group)

    known = [broker.broker.slow_consumers.bytes_behind("orders", group, 0) is not None for group in ("a", "b")]
    assert known == [True, False]
