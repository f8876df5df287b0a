"""Registered SQL92 expressions: which version is valid, how long they are kept, and their file."""

import shutil
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec
import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables import consumer_filters
from kerolox.broker.tables.consumer_filters import ConsumerFilters
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.message.records.summary import peek
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store import tables
from kerolox.wire.bodies.clients import SubscriptionData

GOLDEN = Path(__file__).parents[2] / "golden"
DAY_SECONDS = 24 * 3600


def subscription(text: str, version: int = 1, topic: str = "orders", kind: str | None = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=text, sub_version=version, expression_type=kind)


def table(directory: Path, clock: ManualClock, **changes: str) -> ConsumerFilters:
    config = BrokerConfig()
    config.update({"enablePropertyFilter": "true"} | changes)
    loaded = ConsumerFilters(config, RealDisk(), directory, clock)
    loaded.load()
    return loaded


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def filters(tmp_path: Path, clock: ManualClock) -> ConsumerFilters:
    return table(tmp_path / "config", clock)


def contents(filters: ConsumerFilters) -> dict[tuple[str, str], tuple[str, int, bool]]:
    return {(known.topic, known.group): (known.expression.text, known.version, known.is_dead) for known in filters}


def test_a_newer_version_replaces_an_older_one_and_not_vice_versa(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [subscription("a > 1", 5)])
    filters.subscribe("group", [subscription("a > 2", 5)])
    filters.subscribe("group", [subscription("a > 3", 4)])
    assert contents(filters) == {("orders", "group"): ("a > 1", 5, False)}

    filters.subscribe("group", [subscription("a > 4", 6)])

    assert contents(filters) == {("orders", "group"): ("a > 4", 6, False)}


async def test_an_unchanged_expression_in_a_newer_version_keeps_its_birth_time(
    filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [subscription("a > 1", 5)])
    known = filters.find("orders", "group")
    assert known is not None
    born_millis = known.born_millis
    await clock.advance(10)

    filters.subscribe("group", [subscription("a > 1", 6)])

    assert filters.find("orders", "group") is known
    assert (known.version, known.born_millis) == (6, born_millis)


def test_tag_subscriptions_are_not_kept(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [subscription("a || b", kind=kind) for kind in (None, "", "TAG")])

    assert contents(filters) == {}


def test_an_expression_that_does_not_compile_removes_the_old_one(
    filters: ConsumerFilters, caplog: pytest.LogCaptureFixture
) -> None:
    filters.subscribe("group", [subscription("a > 1", 5)])

    filters.subscribe("group", [subscription("a >", 6), subscription("b = 1", topic="others")])

    assert contents(filters) == {("others", "group"): ("b = 1", 1, False)}
    assert "line 1, column 4: found the end" in caplog.text
    with pytest.raises(ExpressionError, match="type 'XPATH' is not supported"):
        filters.register("group", subscription("a > 1", 7, kind="XPATH"))


async def test_a_filter_is_dead_after_its_group_left_and_alive_when_it_returns(
    filters: ConsumerFilters, clock: ManualClock
) -> None:
    both = [subscription("a > 1"), subscription("b > 1", topic="others")]
    filters.subscribe("group", both)
    filters.leave("group")
    assert {is_dead for _, _, is_dead in contents(filters).values()} == {True}

    await clock.advance(60)
    filters.subscribe("group", both[:1])

    assert contents(filters)["orders", "group"] == ("a > 1", 1, False)
    assert contents(filters)["others", "group"] == ("b > 1", 1, True)


async def test_the_filter_of_an_unsubscribed_topic_is_dead(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [subscription("a > 1"), subscription("b > 1", topic="others")])

    filters.subscribe("group", [subscription("a > 1")])

    assert contents(filters)["others", "group"] == ("b > 1", 1, True)


async def test_dead_filters_are_deleted_after_a_day(filters: ConsumerFilters, clock: ManualClock) -> None:
    filters.subscribe("gone", [subscription("a > 1")])
    filters.subscribe("here", [subscription("a > 2")])
    filters.leave("gone")
    await clock.advance(DAY_SECONDS - 1)
    filters.clean()
    assert len(filters) == 2

    await clock.advance(1)
    filters.clean()

    assert list(contents(filters)) == [("orders", "here")]
    filters.leave("gone")


async def test_filters_are_dead_after_a_restart_until_their_group_returns(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [subscription("a > 1 AND b = 'it''s'", 5)])
    await filters.file.save()
    await clock.advance(60)

    again = table(tmp_path / "config", clock)

    assert contents(again) == {("orders", "group"): ("a > 1 AND b = 'it''s'", 5, True)}
    known = again.find("orders", "group")
    assert known is not None
    assert known.dead_millis == clock.millis() - 30_000
    again.subscribe("group", [subscription("a > 1 AND b = 'it''s'", 6)])
    assert not known.is_dead


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
async def test_a_file_written_by_java_is_written_back_byte_for_byte(
    tmp_path: Path, clock: ManualClock, version: str
) -> None:
    java = GOLDEN / f"config-{version}" / "consumerFilter.json"
    shutil.copytree(java.parent, tmp_path / "config")

    filters = table(tmp_path / "config", clock)
    filters.file.changed()
    await filters.file.save()

    assert list(contents(filters)) == [("Keyed", "keyed_consumer")]
    assert (tmp_path / "config" / "consumerFilter.json").read_bytes() == java.read_bytes()
    # The bits equal those that Java computed.
    known = filters.find("Keyed", "keyed_consumer")
    assert known is not None
    assert known.bloom == filters.bloom.generate("keyed_consumer#Keyed")


async def test_a_file_with_another_bloom_filter_size_is_ignored(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [subscription("a > 1")])
    await filters.file.save()

    assert contents(table(tmp_path / "config", clock, expectConsumerNumUseFilter="64")) == {}


async def test_expressions_that_no_longer_compile_are_skipped_when_loading(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [subscription("a > 1"), subscription("b > 1", topic="others")])
    await filters.file.save()
    path = tmp_path / "config" / "consumerFilter.json"
    path.write_text(path.read_text().replace("a > 1", "a > > 1"))

    assert list(contents(table(tmp_path / "config", clock))) == [("others", "group")]


def test_one_heartbeat_compiles_a_limited_number_of_characters(filters: ConsumerFilters) -> None:
    many = [subscription(f"a > {number}".ljust(1024 - 64), topic=f"topic-{number}") for number in range(20)]

    filters.subscribe("group", many)
    assert len(filters) == 8

    # The next heartbeat continues after those.
    filters.subscribe("group", many)
    assert len(filters) == 16


def test_no_expression_is_compiled_or_kept_while_they_are_disabled(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = table(tmp_path / "config", clock, enablePropertyFilter="false")
    compiled: list[str] = []
    monkeypatch.setattr(consumer_filters, "compile_expression", compiled.append)

    filters.subscribe("group", [subscription("a > 1"), subscription("b > 1", topic="others")])

    assert (contents(filters), compiled) == ({}, [])


async def test_known_expressions_stay_while_they_are_disabled(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [subscription("a > 1", 5)])
    await filters.file.save()

    again = table(tmp_path / "config", clock, enablePropertyFilter="false")
    again.subscribe("group", [subscription("a > 2", 6)])

    assert contents(again) == {("orders", "group"): ("a > 1", 5, True)}


def test_the_memory_of_all_expressions_is_limited(tmp_path: Path, clock: ManualClock) -> None:
    small, large = "a > 1", " OR ".join(f"a = {number}" for number in range(200))
    filters = table(tmp_path / "config", clock, expressionBytesMax="250000")

    filters.register("first", subscription(large))
    with pytest.raises(
        ExpressionError, match=r"take 1\d{5} bytes, at most 250000 allowed \(expressionBytesMax\), and this"
    ):
        filters.register("second", subscription(large))
    filters.register("third", subscription(small))
    # Replacing an expression frees its memory.
    filters.register("first", subscription(small, 2))
    filters.register("second", subscription(large))

    assert [known.group for known in filters] == ["third", "first", "second"]
    assert filters.size == sum(known.expression.size for known in filters)


@pytest.mark.parametrize("kind", ["comparisons", "a list"])
def test_the_size_of_an_expression_is_about_its_memory(kind: str) -> None:
    listed = ",".join(f"'{number}'" for number in range(900))
    compared = " OR ".join(f"p{number} > {number}" for number in range(250))
    texts = [f"p{index} IN ({listed})" if kind == "a list" else f"{compared} OR q = {index}" for index in range(4)]
    compile_expression("a = 1 OR b > 2")
    tracemalloc.start()
    try:
        compiled = [compile_expression(text) for text in texts]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    estimated = sum(expression.size for expression in compiled)
    assert estimated / 2 < used < estimated * 1.5


async def test_the_file_is_encoded_in_another_thread(filters: ConsumerFilters, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    pretty = tables.pretty

    def recording(value: object, unknown: Mapping[str, object]) -> bytes:
        threads.append(threading.get_ident())
        return pretty(value, unknown)

    monkeypatch.setattr(tables, "pretty", recording)
    filters.subscribe("group", [subscription("a > 1")])

    await filters.file.save()

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_the_bit_map_of_a_message_has_the_bits_of_matching_filters(filters: ConsumerFilters) -> None:
    filters.subscribe("few", [subscription("a > 5")])
    filters.subscribe("many", [subscription("a > 1")])
    few, many = filters.find("orders", "few"), filters.find("orders", "many")
    assert few is not None
    assert many is not None

    def bit_map(topic: str, **names: str) -> bytes:
        return filters.bit_map_of(peek(bytes(encode(Message(topic=topic, body=b"", properties=to_bytes(names))))))

    assert bit_map("orders", a="9") == filters.bloom.bit_map([few.bloom, many.bloom])
    assert bit_map("orders", a="3") == filters.bloom.bit_map([many.bloom])
    assert bit_map("orders") == bytes(filters.bloom.bit_count // 8)
    assert bit_map("others", a="9") == b""


def test_properties_are_parsed_once_for_all_groups(filters: ConsumerFilters) -> None:
    class Counted(bytes):
        parses = 0

        def rpartition(self, separator: Any, /) -> tuple[bytes, bytes, bytes]:
            self.parses += 1
            return super().rpartition(separator)

        def split(self, separator: Any = None, maxsplit: SupportsIndex = -1) -> list[bytes]:
            self.parses += 1
            return super().split(separator, maxsplit)

    for number in range(10):
        filters.subscribe(f"group-{number}", [subscription(f"a > {number}"), subscription("b = 'x'", topic="others")])
    record = peek(bytes(encode(Message(topic="orders", body=b"", properties=to_bytes({"a": "5", "b": "six"})))))
    counted = Counted(record.properties)

    bits = filters.bit_map_of(msgspec.structs.replace(record, properties=counted))

    wanted = [known.bloom for known in filters if known.topic == "orders" and int(known.group[-1]) < 5]
    assert bits == filters.bloom.bit_map(wanted)
    assert counted.parses == 1


def test_all_rejected_expressions_of_a_heartbeat_are_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filters = table(tmp_path, ManualClock())

    filters.subscribe("group", [subscription("a >", topic=f"topic-{number}") for number in range(50)])

    (line,) = caplog.messages
    assert line.startswith("rejected 50 expressions of group group, the first for topic topic-0: line 1")


def test_one_heartbeat_compiles_a_limited_number_of_short_expressions(tmp_path: Path) -> None:
    """Even a short expression takes time to compile; the others are compiled by the first pull that uses them."""
    filters = table(tmp_path, ManualClock())

    filters.subscribe("group", [subscription("a > 1", topic=f"topic-{number}") for number in range(2000)])

    assert 0 < len(filters) < 200
