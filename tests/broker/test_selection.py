"""Selections made of subscriptions, and what is refused."""

from pathlib import Path

import pytest

from kerolox.broker import filter_data
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import FilterDataNotFound, FilterDataNotLatest, SubscriptionParseFailed
from kerolox.broker.filter_data import ConsumerFilters
from kerolox.broker.selection import EVERYTHING, Selector
from kerolox.errors import SystemFailure
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.record import encode
from kerolox.message.tags import tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.queue.queue_ext import ExtUnit
from kerolox.wire.bodies.clients import SubscriptionData

CONFIG = {"enablePropertyFilter": "true"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def selector(directory: Path, clock: ManualClock, **changes: str) -> tuple[Selector, ConsumerFilters]:
    config = BrokerConfig()
    config.update(CONFIG | changes)
    filters = ConsumerFilters(config, RealDisk(), directory, clock)
    return Selector(config, filters), filters


def wanting(text: str, version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic="orders", sub_string=text, sub_version=version, expression_type="SQL92")


def record(**names: str) -> bytes:
    return bytes(encode(Message(topic="orders", body=b"body", properties=to_bytes(names))))


def test_tags_are_judged_in_the_queue_and_one_that_is_not_known_may_match(tmp_path: Path, clock: ManualClock) -> None:
    made, _ = selector(tmp_path, clock)
    carried = made.of_request("group", "orders", " a ||b", None)
    subscribed = made.of_subscription(
        "group", SubscriptionData(topic="orders", sub_string="a||b", code_set=[97, 98]), 0
    )

    for matches, wants in (carried, subscribed):
        assert wants is None
        assert matches is not None
        assert [matches(tags_code(tag), None) for tag in (b"a", b"b", b"c", b"")] == [True, True, False, False]
        assert matches(None, None)


@pytest.mark.parametrize("text", [None, "", "*", " * "])
def test_a_star_is_everything(tmp_path: Path, clock: ManualClock, text: str | None) -> None:
    assert selector(tmp_path, clock)[0].of_request("group", "orders", text, "TAG") == EVERYTHING


def test_nothing_but_bars_is_no_expression(tmp_path: Path, clock: ManualClock) -> None:
    with pytest.raises(SubscriptionParseFailed):
        selector(tmp_path, clock)[0].of_request("group", "orders", "||", "TAG")


def test_an_expression_is_judged_by_the_record(tmp_path: Path, clock: ManualClock) -> None:
    made, _ = selector(tmp_path, clock)

    for matches, wants in (
        made.of_request("group", "orders", "a > 3", "SQL92"),
        made.of_subscription("group", wanting("a > 3"), 1),
    ):
        assert matches is None
        assert wants is not None
        assert [wants(record(a=text)) for text in ("1", "5", "x")] == [False, True, False]
        assert not wants(record())


def test_one_that_no_heartbeat_registered_is_registered_by_who_needs_it(tmp_path: Path, clock: ManualClock) -> None:
    made, filters = selector(tmp_path, clock)
    assert filters.find("orders", "group") is None

    made.of_subscription("group", wanting("a > 3"), 1)

    assert filters.find("orders", "group") is not None


def test_who_has_a_newer_version_than_anybody_registered_must_wait(tmp_path: Path, clock: ManualClock) -> None:
    made, _ = selector(tmp_path, clock)

    with pytest.raises(FilterDataNotLatest, match="the consumer's consumer filter data not latest"):
        made.of_subscription("group", wanting("a > 3", 1), 2)


def test_nothing_is_compiled_while_expressions_are_not_enabled(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, filters = selector(tmp_path, clock, enablePropertyFilter="false")
    compiled: list[str] = []
    monkeypatch.setattr(filter_data, "compile_expression", compiled.append)

    for ask in (
        lambda: made.of_request("group", "orders", "a > > 3", "SQL92"),
        lambda: made.of_subscription("group", wanting("a > 3"), 1),
    ):
        with pytest.raises(SystemFailure, match="does not support consumer to filter message by SQL92"):
            ask()

    assert (compiled, len(filters)) == ([], 0)


def test_there_is_room_for_so_many_expressions(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, filters = selector(tmp_path, clock)
    monkeypatch.setattr(filter_data, "_FILTERS_MAX", 2)
    for group in ("first", "second"):
        made.of_subscription(group, wanting("a > 3"), 1)

    with pytest.raises(FilterDataNotFound, match="2 expressions are registered, which is the most there may be"):
        made.of_subscription("third", wanting("a > 3"), 1)
    # One that is known may still change.
    made.of_subscription("second", wanting("a > 4", 2), 2)

    assert len(filters) == 2


async def test_bits_are_believed_where_they_speak_of_this_consumer(tmp_path: Path, clock: ManualClock) -> None:
    made, filters = selector(tmp_path, clock, enableCalcFilterBitMap="true")
    born_millis = clock.millis()
    matches = made.of_subscription("group", wanting("a > 3"), 1).matches
    known = filters.find("orders", "group")
    assert known is not None
    assert matches is not None
    hit, missed = filters.bloom.bit_map([known.bloom]), filters.bloom.bit_map([])

    assert matches(0, ExtUnit(0, born_millis + 1, hit))
    assert not matches(0, ExtUnit(0, born_millis + 1, missed))
    assert matches(0, ExtUnit(0, born_millis, missed))
    assert matches(0, ExtUnit(0, born_millis + 1, missed[:-1]))
    assert matches(0, ExtUnit(0, born_millis + 1))
    assert matches(0, None)
