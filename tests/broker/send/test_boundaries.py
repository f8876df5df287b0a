"""Limits of sends at their exact values, on every path."""

from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.send.collector import FEW, SendCollector
from kerolox.broker.send.responses import UNIQUE_KEY_SIZE_MAX
from kerolox.codes import ResponseCode
from kerolox.errors import SystemFailure
from kerolox.message.errors import MessageIllegal
from kerolox.message.records.record import BLANK_SIZE_MIN, PROPERTIES_SIZE_MAX
from kerolox.remoting.router import Incoming
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import BINARY, JSON
from tests.broker.brokers import BrokerFixture, running, sending
from tests.broker.send.test_uniform import COUNT, frames_of
from tests.remoting.support import Peer


async def codes_by_queue(broker: BrokerFixture, peer: Peer, first: int, serialization: int) -> dict[int, set[int]]:
    """Send many frames over five queues at once; return the response codes by requested queue."""
    await peer.send(b"".join(frames_of(first, queues=5, serialization=serialization)))
    codes: dict[int, set[int]] = {}
    for answer in await peer.answers(COUNT):
        codes.setdefault(answer.opaque % 5, set()).add(answer.code)
    return codes


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_the_queue_id_after_the_last_is_refused_among_many_sends(tmp_path: Path, serialization: int) -> None:
    async with running(tmp_path) as broker, await Peer.to(broker.broker.address) as peer:
        await broker.send("orders", b"first", 3)
        # Sends with valid queue ids only, so that a template is learnt.
        for first in (100_000, 200_000):
            await peer.send(b"".join(frames_of(first, queues=4, serialization=serialization)))
            assert {answer.code for answer in await peer.answers(COUNT)} == {ResponseCode.SUCCESS}

        codes = await codes_by_queue(broker, peer, 300_000, serialization)

        assert codes.pop(4) == {ResponseCode.INVALID_PARAMETER}
        assert list(codes.values()) == [{ResponseCode.SUCCESS}] * 4
        assert COUNT >= FEW
        assert await broker.messages("orders", 4) == []


async def test_the_broker_accepts_sends_from_the_configured_time_on(tmp_path: Path) -> None:
    clock = ManualClock()
    begin = str(clock.millis() + 1000)
    async with running(tmp_path, clock, startAcceptSendRequestTimeStamp=begin) as broker:
        with pytest.raises(SystemFailure, match="broker unable to service"):
            await broker.send("orders", b"early")
        await clock.advance(1)

        assert (await broker.send("orders", b"in time")).queue_offset == 0


async def test_a_retry_topic_is_created_although_topics_are_not_auto_created(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateTopicEnable="false") as broker:
        await broker.heartbeat(consumes={"shop": ["orders"]})
        broker.broker.topics.delete("%RETRY%shop")

        await broker.call(sending("%RETRY%shop"), b"again")

        assert broker.broker.topics.find("%RETRY%shop").write_queue_nums == 1


FILE_SIZE = 64 * 1024
# The broker adds this property to each message.
CLUSTER_SIZE = len("CLUSTER\1DefaultCluster\2")
# Properties of a collected message may lack the separator at their end.
COLLECTED_PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX - CLUSTER_SIZE - 1
# Body and properties of a collected message; 512 bytes are kept for the rest of its record.
COLLECTED_SIZE_MAX = FILE_SIZE - BLANK_SIZE_MIN - CLUSTER_SIZE - 512


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each send was collected or left to be handled alone."""
    results: list[bool] = []
    take = SendCollector.take

    def note(collector: SendCollector, request: Incoming[Any]) -> bool:
        results.append(take(collector, request))
        return results[-1]

    monkeypatch.setattr(SendCollector, "take", note)
    return results


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize(
    ("body_size", "properties_size", "grows"),
    [(4096, 100, "body"), (1, COLLECTED_PROPERTIES_SIZE_MAX, "properties"), (1, UNIQUE_KEY_SIZE_MAX, "unique key")],
)
async def test_sends_are_collected_up_to_the_exact_limits(
    tmp_path: Path, taken: list[bool], body_size: int, properties_size: int, grows: str, excess: int
) -> None:
    async with running(tmp_path, maxMessageSize="4096") as broker:
        await broker.send("orders", b"first")
        size = properties_size + (excess if grows != "body" else 0)
        names = {"UNIQ_KEY": "u" * size} if grows == "unique key" else with_size(size)
        request, body = sending("orders", **names), bytes(body_size + (excess if grows == "body" else 0))
        taken.clear()

        if grows == "body" and excess:
            with pytest.raises(MessageIllegal):
                await broker.call(request, body)
        else:
            await broker.call(request, body)
            assert [message.body for message in await broker.messages("orders")] == [b"first", body]

        assert taken == [not excess]


@pytest.mark.parametrize("excess", [0, 1])
async def test_a_send_that_fits_into_a_file_of_the_log_is_collected(
    tmp_path: Path, taken: list[bool], excess: int
) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog=str(FILE_SIZE)) as broker:
        await broker.send("orders", b"first")
        taken.clear()

        await broker.call(sending("orders", **with_size(100)), bytes(COLLECTED_SIZE_MAX - 100 + excess))

        assert taken == [not excess]
        assert len(await broker.messages("orders")) == 2


async def test_many_sends_fit_up_to_the_exact_limits(tmp_path: Path) -> None:
    changes = {"maxMessageSize": "40000", "mappedFileSizeCommitLog": str(FILE_SIZE)}
    async with running(tmp_path, **changes, sendThreadPoolQueueCapacity="50") as broker:
        fits = collector_of(broker).fits

        assert fits(1, 40_000, 0, 50)
        assert not fits(0, 40_000, 0, 50)
        assert not fits(1, 40_001, 0, 50)
        assert not fits(1, 40_000, 0, 51)
        assert fits(1, 1, COLLECTED_PROPERTIES_SIZE_MAX, 1)
        assert not fits(1, 1, COLLECTED_PROPERTIES_SIZE_MAX + 1, 1)
        assert fits(1, 40_000, COLLECTED_SIZE_MAX - 40_000, 1)
        assert not fits(1, 40_000, COLLECTED_SIZE_MAX - 40_000 + 1, 1)


async def test_of_many_sends_those_that_find_no_room_are_refused_and_the_others_stored(tmp_path: Path) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog=str(FILE_SIZE // 4)) as broker:
        broker.broker.topics.create("orders", 3)
        # A directory in its place: the second file of the log cannot be created.
        (tmp_path / "commitlog" / f"{FILE_SIZE // 4:020d}").mkdir()
        async with await Peer.to(broker.broker.address) as peer:
            await peer.send(b"".join(frames_of(100_000, 20, body=lambda number: b"%06d" % number * 200)))
            answers = await peer.answers(20)

        codes = {answer.opaque: answer.code for answer in answers}
        stored = [int(message.body[:6]) for queue in range(3) for message in await broker.messages("orders", queue)]
        assert 0 < len(stored) < len(codes) == 20
        assert {number for number, code in codes.items() if code == ResponseCode.SUCCESS} == set(stored)
        assert collector_of(broker).request_queue.under_way == 0


def with_size(size: int) -> dict[str, str]:
    """Return properties of exactly `size` bytes, with separators."""
    return {"UNIQ_KEY": "u1", "own": "x" * (size - len("UNIQ_KEY\1u1\2own\1\2"))}


def collector_of(broker: BrokerFixture) -> SendCollector:
    collect: Any = broker.broker.router.collect
    collector = collect.__self__._collector
    assert isinstance(collector, SendCollector)
    return collector
