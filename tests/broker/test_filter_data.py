"""Expressions of consumers: which version holds, when they die, and what of them is in the file."""

import shutil
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import msgspec
import pytest

from kerolox.broker import filter_data
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.filter_data import ConsumerFilters
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.message.message import Message
from kerolox.message.peek import peek
from kerolox.message.properties import to_bytes
from kerolox.message.record import encode
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store import tables
from kerolox.wire.bodies.clients import SubscriptionData

GOLDEN = Path(__file__).parent.parent / "golden"
DAY_SECONDS = 24 * 3600


def wanting(text: str, version: int = 1, topic: str = "orders", kind: str | None = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=text, sub_version=version, expression_type=kind)


def table(directory: Path, clock: ManualClock, **changes: str) -> ConsumerFilters:
    config = BrokerConfig()
    config.update({"enablePropertyFilter": "true"} | changes)
    made = ConsumerFilters(config, RealDisk(), directory, clock)
    made.load()
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def filters(tmp_path: Path, clock: ManualClock) -> ConsumerFilters:
    return table(tmp_path / "config", clock)


def held(filters: ConsumerFilters) -> dict[tuple[str, str], tuple[str, int, bool]]:
    return {(known.topic, known.group): (known.expression.text, known.version, known.is_dead) for known in filters}


def test_a_newer_version_replaces_an_older_and_never_the_other_way_round(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [wanting("a > 1", 5)])
    filters.subscribe("group", [wanting("a > 2", 5)])
    filters.subscribe("group", [wanting("a > 3", 4)])
    assert held(filters) == {("orders", "group"): ("a > 1", 5, False)}

    filters.subscribe("group", [wanting("a > 4", 6)])

    assert held(filters) == {("orders", "group"): ("a > 4", 6, False)}


async def test_the_same_expression_in_a_newer_version_is_as_old_as_before(
    filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [wanting("a > 1", 5)])
    known = filters.find("orders", "group")
    assert known is not None
    born_millis = known.born_millis
    await clock.advance(10)

    filters.subscribe("group", [wanting("a > 1", 6)])

    assert filters.find("orders", "group") is known
    assert (known.version, known.born_millis) == (6, born_millis)


def test_tags_are_none_of_its_business(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [wanting("a || b", kind=kind) for kind in (None, "", "TAG")])

    assert held(filters) == {}


def test_what_does_not_compile_takes_the_old_expression_with_it(
    filters: ConsumerFilters, caplog: pytest.LogCaptureFixture
) -> None:
    filters.subscribe("group", [wanting("a > 1", 5)])

    filters.subscribe("group", [wanting("a >", 6), wanting("b = 1", topic="others")])

    assert held(filters) == {("others", "group"): ("b = 1", 1, False)}
    assert "line 1, column 4: found the end" in caplog.text
    with pytest.raises(ExpressionError, match="of type 'XPATH' are not known"):
        filters.register("group", wanting("a > 1", 7, kind="XPATH"))


async def test_it_dies_with_its_group_and_lives_again_with_it(filters: ConsumerFilters, clock: ManualClock) -> None:
    both = [wanting("a > 1"), wanting("b > 1", topic="others")]
    filters.subscribe("group", both)
    filters.leave("group")
    assert {is_dead for _, _, is_dead in held(filters).values()} == {True}

    await clock.advance(60)
    filters.subscribe("group", both[:1])

    assert held(filters)["orders", "group"] == ("a > 1", 1, False)
    assert held(filters)["others", "group"] == ("b > 1", 1, True)


async def test_a_topic_that_is_no_longer_subscribed_dies(filters: ConsumerFilters) -> None:
    filters.subscribe("group", [wanting("a > 1"), wanting("b > 1", topic="others")])

    filters.subscribe("group", [wanting("a > 1")])

    assert held(filters)["others", "group"] == ("b > 1", 1, True)


async def test_the_dead_are_forgotten_after_a_day(filters: ConsumerFilters, clock: ManualClock) -> None:
    filters.subscribe("gone", [wanting("a > 1")])
    filters.subscribe("here", [wanting("a > 2")])
    filters.leave("gone")
    await clock.advance(DAY_SECONDS - 1)
    filters.clean()
    assert len(filters) == 2

    await clock.advance(1)
    filters.clean()

    assert list(held(filters)) == [("orders", "here")]
    filters.leave("gone")


async def test_it_is_read_back_as_dead_since_nobody_has_been_heard_yet(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [wanting("a > 1 AND b = 'it''s'", 5)])
    await filters.file.save()
    await clock.advance(60)

    again = table(tmp_path / "config", clock)

    assert held(again) == {("orders", "group"): ("a > 1 AND b = 'it''s'", 5, True)}
    known = again.find("orders", "group")
    assert known is not None
    assert known.dead_millis == clock.millis() - 30_000
    again.subscribe("group", [wanting("a > 1 AND b = 'it''s'", 6)])
    assert not known.is_dead


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
async def test_the_file_of_java_is_read_and_written_alike(tmp_path: Path, clock: ManualClock, version: str) -> None:
    java = GOLDEN / f"config-{version}" / "consumerFilter.json"
    shutil.copytree(java.parent, tmp_path / "config")

    filters = table(tmp_path / "config", clock)
    filters.file.changed()
    await filters.file.save()

    assert list(held(filters)) == [("Keyed", "keyed_consumer")]
    assert (tmp_path / "config" / "consumerFilter.json").read_bytes() == java.read_bytes()
    # The bits are those that Java gave it.
    known = filters.find("Keyed", "keyed_consumer")
    assert known is not None
    assert known.bloom == filters.bloom.generate("keyed_consumer#Keyed")


async def test_bits_of_another_size_make_the_file_worthless(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [wanting("a > 1")])
    await filters.file.save()

    assert held(table(tmp_path / "config", clock, expectConsumerNumUseFilter="64")) == {}


async def test_what_no_longer_compiles_is_left_out_when_read(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [wanting("a > 1"), wanting("b > 1", topic="others")])
    await filters.file.save()
    path = tmp_path / "config" / "consumerFilter.json"
    path.write_text(path.read_text().replace("a > 1", "a > > 1"))

    assert list(held(table(tmp_path / "config", clock))) == [("others", "group")]


def test_one_heartbeat_compiles_only_so_many(filters: ConsumerFilters) -> None:
    many = [wanting(f"a > {number}".ljust(1000), topic=f"topic-{number}") for number in range(20)]

    filters.subscribe("group", many)
    assert len(filters) == 8

    # The next one finds those and goes on.
    filters.subscribe("group", many)
    assert len(filters) == 16


def test_while_expressions_are_not_enabled_none_is_compiled_or_kept(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = table(tmp_path / "config", clock, enablePropertyFilter="false")
    compiled: list[str] = []
    monkeypatch.setattr(filter_data, "compile_expression", compiled.append)

    filters.subscribe("group", [wanting("a > 1"), wanting("b > 1", topic="others")])

    assert (held(filters), compiled) == ({}, [])


async def test_what_is_known_of_a_group_stays_while_expressions_are_not_enabled(
    tmp_path: Path, filters: ConsumerFilters, clock: ManualClock
) -> None:
    filters.subscribe("group", [wanting("a > 1", 5)])
    await filters.file.save()

    again = table(tmp_path / "config", clock, enablePropertyFilter="false")
    again.subscribe("group", [wanting("a > 2", 6)])

    assert held(again) == {("orders", "group"): ("a > 1", 5, True)}


def test_all_expressions_together_have_an_end(tmp_path: Path, clock: ManualClock) -> None:
    small, large = "a > 1", " OR ".join(f"a = {number}" for number in range(200))
    filters = table(tmp_path / "config", clock, expressionBytesMax="250000")

    filters.register("first", wanting(large))
    with pytest.raises(ExpressionError, match=r"take 1\d{5} bytes, at most 250000 allowed, and this one"):
        filters.register("second", wanting(large))
    filters.register("third", wanting(small))
    # One that is replaced makes room.
    filters.register("first", wanting(small, 2))
    filters.register("second", wanting(large))

    assert [known.group for known in filters] == ["third", "first", "second"]
    assert filters.size == sum(known.expression.size for known in filters)


@pytest.mark.parametrize("kind", ["comparisons", "a list"])
def test_an_expression_takes_about_as_much_memory_as_it_says(kind: str) -> None:
    listed = ",".join(f"'{number}'" for number in range(900))
    compared = " OR ".join(f"p{number} > {number}" for number in range(250))
    texts = [f"p{index} IN ({listed})" if kind == "a list" else f"{compared} OR q = {index}" for index in range(4)]
    compile_expression("a = 1 OR b > 2")
    tracemalloc.start()
    try:
        made = [compile_expression(text) for text in texts]
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    said = sum(expression.size for expression in made)
    assert said / 2 < taken < said * 1.5


async def test_the_file_is_encoded_where_it_keeps_nobody_waiting(
    filters: ConsumerFilters, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    pretty = tables.pretty

    def noted(value: object, unknown: Mapping[str, object]) -> bytes:
        threads.append(threading.get_ident())
        return pretty(value, unknown)

    monkeypatch.setattr(tables, "pretty", noted)
    filters.subscribe("group", [wanting("a > 1")])

    await filters.file.save()

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_the_bit_map_of_a_message_has_the_bits_of_those_who_want_it(filters: ConsumerFilters) -> None:
    filters.subscribe("few", [wanting("a > 5")])
    filters.subscribe("many", [wanting("a > 1")])
    few, many = filters.find("orders", "few"), filters.find("orders", "many")
    assert few is not None
    assert many is not None

    def bit_map(topic: str, **names: str) -> bytes:
        return filters.bit_map_of(peek(bytes(encode(Message(topic=topic, body=b"", properties=to_bytes(names))))))

    assert bit_map("orders", a="9") == filters.bloom.bit_map([few.bloom, many.bloom])
    assert bit_map("orders", a="3") == filters.bloom.bit_map([many.bloom])
    assert bit_map("orders") == bytes(filters.bloom.bit_count // 8)
    assert bit_map("others", a="9") == b""


def test_however_many_groups_want_something_properties_are_looked_through_once(filters: ConsumerFilters) -> None:
    class Counted(bytes):
        looks = 0

        def rpartition(self, separator: Any, /) -> tuple[bytes, bytes, bytes]:
            self.looks += 1
            return super().rpartition(separator)

        def split(self, separator: Any = None, maxsplit: SupportsIndex = -1) -> list[bytes]:
            self.looks += 1
            return super().split(separator, maxsplit)

    for number in range(10):
        filters.subscribe(f"group-{number}", [wanting(f"a > {number}"), wanting("b = 'x'", topic="others")])
    record = peek(bytes(encode(Message(topic="orders", body=b"", properties=to_bytes({"a": "5", "b": "six"})))))
    counted = Counted(record.properties)

    bits = filters.bit_map_of(msgspec.structs.replace(record, properties=counted))

    wanted = [known.bloom for known in filters if known.topic == "orders" and int(known.group[-1]) < 5]
    assert bits == filters.bloom.bit_map(wanted)
    assert counted.looks == 1
