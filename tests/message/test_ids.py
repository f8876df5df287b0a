"""Message ids and recall handles."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import hosts, ids
from kerolox.message.errors import IdError
from kerolox.message.ids import RecallHandle, UniqueIds
from kerolox.runtime.clock import ManualClock
from tests.message.examples import host, int64

LOOPBACK = bytes((127, 0, 0, 1))


@pytest.fixture(params=["UTC", "Asia/Shanghai", "America/New_York"], autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def millis(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def maker(clock: ManualClock, ip: bytes = LOOPBACK) -> UniqueIds:
    return UniqueIds(ip, pid=0x1F0F8, process_number=0x18B4AAC2, clock=clock)


# Offset ids


def test_an_offset_id_consists_of_address_and_offset() -> None:
    text = "C0A8011400002A9F0000000000001000"

    assert ids.offset_id(hosts.parse("192.168.1.20:10911"), 4096) == text
    assert ids.parse_offset_id(text) == (hosts.parse("192.168.1.20:10911"), 4096)
    assert ids.parse_offset_id(text.lower()) == ids.parse_offset_id(text)


@given(host, int64)
def test_every_offset_id_is_parsed_again(store_host: bytes, physical_offset: int) -> None:
    text = ids.offset_id(store_host, physical_offset)

    assert len(text) in (32, 56)
    assert ids.parse_offset_id(text) == (store_host, physical_offset)


@pytest.mark.parametrize(
    "text", ["", "C0A8", "C0A8011400002A9F000000000000100", "x" * 32, "0" * 34, "é" * 32, "0" * 55]
)
def test_other_text_is_rejected_as_an_offset_id(text: str) -> None:
    with pytest.raises(IdError, match="is not a message id"):
        ids.parse_offset_id(text)


# Unique ids


def test_the_layout_of_a_unique_id_is_that_of_java() -> None:
    unique = maker(ManualClock(millis("2023-11-01T00:00:01.500")))

    assert [unique.make() for _ in range(3)] == [
        "7F000001" "F0F8" "18B4AAC2" "000005DC" "0000",
        "7F000001" "F0F8" "18B4AAC2" "000005DC" "0001",
        "7F000001" "F0F8" "18B4AAC2" "000005DC" "0002",
    ]  # fmt: skip


def test_an_id_with_ipv6_has_56_digits() -> None:
    unique = maker(ManualClock(millis("2023-11-14T22:13:20")), hosts.parse("[::1]:1")[:16]).make()

    assert len(unique) == 56
    assert unique.startswith("00000000000000000000000000000001F0F818B4AAC2")


def test_the_counter_wraps_after_sixteen_bits() -> None:
    unique = maker(ManualClock())
    made = [unique.make() for _ in range(0x10001)]

    assert [text[-4:] for text in made[-2:]] == ["FFFF", "0000"]


async def test_the_time_in_an_id_starts_at_zero_each_month() -> None:
    clock = ManualClock(millis("2023-12-31T23:59:59.999"))
    unique = maker(clock)
    assert unique.make()[20:28] == f"{31 * 86_400_000 - 1:08X}"

    await clock.advance(0.001)

    assert unique.make()[20:28] == "00000000"


def test_a_clock_set_back_slightly_before_the_first_of_the_month_gives_time_zero() -> None:
    clock = ManualClock(millis("2024-01-01T00:00:00"))
    unique = maker(clock)
    clock._now -= 999

    assert unique.make()[20:28] == "00000000"

    clock._now -= 2
    assert unique.make()[20:28] == f"{2**32 - 1_001_000:08X}"


@pytest.mark.parametrize(
    ("born", "read"),
    [
        ("2023-11-14T22:13:20.123", "2023-11-14T22:13:21"),
        ("2023-12-31T23:59:59.999", "2024-01-05T00:00:00"),
        ("2024-01-31T12:00:00.000", "2024-02-29T12:00:00"),
    ],
)
def test_the_creation_time_of_an_id_is_known_for_a_month(born: str, read: str) -> None:
    for ip in (LOOPBACK, bytes(16)):
        unique = maker(ManualClock(millis(born)), ip).make()

        assert ids.born_millis(unique, millis(read)) == millis(born)


def test_threads_never_get_the_same_id() -> None:
    unique = UniqueIds(LOOPBACK)
    made: list[list[str]] = [[] for _ in range(4)]

    def make(target: list[str]) -> None:
        target.extend(unique.make() for _ in range(2000))

    threads = [threading.Thread(target=make, args=(target,)) for target in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({text for target in made for text in target}) == 8000


# Recall handles


def test_a_recall_handle_is_five_words_in_base64() -> None:
    handle = RecallHandle("topic", "broker-a", "1700000000000", "7F000001F0F818B4AAC20000")

    text = ids.encode_handle(handle)

    assert base64.urlsafe_b64decode(text) == b"v1 topic broker-a 1700000000000 7F000001F0F818B4AAC20000"
    assert ids.decode_handle(text) == handle
    assert ids.decode_handle(text.rstrip("=")) == handle


@given(st.text(max_size=60))
def test_other_text_is_rejected_as_a_recall_handle(text: str) -> None:
    with pytest.raises(IdError):
        ids.decode_handle(text)


@pytest.mark.parametrize("words", ["v2 t b 1 k", "v1 t b 1", "", "v1"])
def test_a_recall_handle_of_another_version_or_with_fewer_words_is_rejected(words: str) -> None:
    with pytest.raises(IdError, match="is not a recall handle of version v1"):
        ids.decode_handle(base64.urlsafe_b64encode(words.encode()).decode())
