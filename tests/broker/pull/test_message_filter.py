"""Filters built from requests and subscriptions, and their errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import FilterDataNotFound, FilterDataNotLatest, SubscriptionParseFailed
from kerolox.broker.pull.message_filter import EVERYTHING, Selector
from kerolox.broker.tables import consumer_filters
from kerolox.broker.tables.consumer_filters import ConsumerFilters
from kerolox.errors import SystemFailure
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.message.tags import tags_code
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.queue.queue_ext import ExtUnit
from kerolox.wire.bodies.clients import SubscriptionData

CONFIG = {"enablePropertyFilter": "true"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def make_selector(directory: Path, clock: ManualClock, **changes: str) -> tuple[Selector, ConsumerFilters]:
    config = BrokerConfig()
    config.update(CONFIG | changes)
    filters = ConsumerFilters(config, RealDisk(), directory, clock)
    return Selector(config, filters), filters


def subscription(text: str, version: int = 1) -> SubscriptionData:
    return SubscriptionData(topic="orders", sub_string=text, sub_version=version, expression_type="SQL92")


def record(**names: str) -> bytes:
    return bytes(encode(Message(topic="orders", body=b"body", properties=to_bytes(names))))


def test_tags_are_matched_by_queue_entries_and_an_unknown_tags_code_matches(tmp_path: Path, clock: ManualClock) -> None:
    selector, _ = make_selector(tmp_path, clock)
    carried = selector.of_request("group", "orders", " a ||b", None)
    subscribed = selector.of_subscription(
        "group", SubscriptionData(topic="orders", sub_string="a||b", code_set=[97, 98]), 0
    )

    for matches, wants in (carried, subscribed):
        assert wants is None
        assert matches is not None
        assert [matches(tags_code(tag), None) for tag in (b"a", b"b", b"c", b"")] == [True, True, False, False]
        assert matches(None, None)


@pytest.mark.parametrize("text", [None, "", "*", " * "])
def test_an_empty_expression_or_a_star_matches_everything(tmp_path: Path, clock: ManualClock, text: str | None) -> None:
    assert make_selector(tmp_path, clock)[0].of_request("group", "orders", text, "TAG") == EVERYTHING


def test_an_expression_of_separators_only_is_rejected(tmp_path: Path, clock: ManualClock) -> None:
    with pytest.raises(SubscriptionParseFailed):
        make_selector(tmp_path, clock)[0].of_request("group", "orders", "||", "TAG")


def test_an_expression_is_matched_by_the_record(tmp_path: Path, clock: ManualClock) -> None:
    selector, _ = make_selector(tmp_path, clock)

    for matches, wants in (
        selector.of_request("group", "orders", "a > 3", "SQL92"),
        selector.of_subscription("group", subscription("a > 3"), 1),
    ):
        assert matches is None
        assert wants is not None
        assert [wants(record(a=text)) for text in ("1", "5", "x")] == [False, True, False]
        assert not wants(record())


def test_an_expression_that_no_heartbeat_registered_is_registered_by_the_pull(
    tmp_path: Path, clock: ManualClock
) -> None:
    selector, filters = make_selector(tmp_path, clock)
    assert filters.find("orders", "group") is None

    selector.of_subscription("group", subscription("a > 3"), 1)

    assert filters.find("orders", "group") is not None


def test_a_consumer_with_a_newer_version_than_the_registered_one_is_rejected(
    tmp_path: Path, clock: ManualClock
) -> None:
    selector, _ = make_selector(tmp_path, clock)

    with pytest.raises(FilterDataNotLatest, match="the consumer's consumer filter data not latest"):
        selector.of_subscription("group", subscription("a > 3", 1), 2)


def test_no_expression_is_compiled_while_they_are_disabled(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector, filters = make_selector(tmp_path, clock, enablePropertyFilter="false")
    compiled: list[str] = []
    monkeypatch.setattr(consumer_filters, "compile_expression", compiled.append)

    asks: list[Callable[[], object]] = [
        lambda: selector.of_request("group", "orders", "a > > 3", "SQL92"),
        lambda: selector.of_subscription("group", subscription("a > 3"), 1),
    ]
    for ask in asks:
        with pytest.raises(SystemFailure, match="does not support consumer to filter message by SQL92"):
            ask()

    assert (compiled, len(filters)) == ([], 0)


def test_the_number_of_expressions_is_limited(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector, filters = make_selector(tmp_path, clock)
    monkeypatch.setattr(consumer_filters, "_FILTERS_MAX", 2)
    for group in ("first", "second"):
        selector.of_subscription(group, subscription("a > 3"), 1)

    with pytest.raises(FilterDataNotFound, match="2 expressions are registered, which is the maximum"):
        selector.of_subscription("third", subscription("a > 3"), 1)
    # An existing one can still change.
    selector.of_subscription("second", subscription("a > 4", 2), 2)

    assert len(filters) == 2


async def test_bit_maps_are_used_only_for_messages_stored_after_the_filter_was_registered(
    tmp_path: Path, clock: ManualClock
) -> None:
    selector, filters = make_selector(tmp_path, clock, enableCalcFilterBitMap="true")
    born_millis = clock.millis()
    matches = selector.of_subscription("group", subscription("a > 3"), 1).matches
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
