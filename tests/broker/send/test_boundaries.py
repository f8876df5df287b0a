"""Limits of sends at their exact values, on every path."""

from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.send import collector
from kerolox.broker.send.collector import COLUMNS_MIN, Run, SendCollector
from kerolox.broker.send.columns import SendColumns
from kerolox.broker.send.header_blocks import FEW
from kerolox.broker.send.responses import UNIQUE_KEY_SIZE_MAX
from kerolox.codes import ResponseCode
from kerolox.errors import SystemFailure
from kerolox.message.errors import MessageIllegal
from kerolox.message.records.record import BLANK_SIZE_MIN, PROPERTIES_SIZE_MAX
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import BINARY, JSON, encode
from tests.broker.brokers import BrokerFixture, running, sending
from tests.broker.send.test_header_blocks import COUNT, frames_of
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
COLLECTED_PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX - CLUSTER_SIZE
# Body and properties of a collected message; 512 bytes are kept for the rest of its record.
COLLECTED_SIZE_MAX = FILE_SIZE - BLANK_SIZE_MIN - CLUSTER_SIZE - 512


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sends of each run that was stored together."""
    counts: list[int] = []
    create = Run.__init__

    def note(run: Run, sender: SendCollector, sends: SendColumns) -> None:
        create(run, sender, sends)
        counts.append(len(sends))

    monkeypatch.setattr(Run, "__init__", note)
    return counts


@pytest.mark.parametrize("excess", [0, 1])
@pytest.mark.parametrize(
    ("body_size", "properties_size", "grows"),
    [(4096, 100, "body"), (1, COLLECTED_PROPERTIES_SIZE_MAX, "properties"), (1, UNIQUE_KEY_SIZE_MAX, "unique key")],
)
async def test_sends_are_stored_as_columns_up_to_the_exact_limits(
    tmp_path: Path,
    collected: list[int],
    monkeypatch: pytest.MonkeyPatch,
    body_size: int,
    properties_size: int,
    grows: str,
    excess: int,
) -> None:
    async with running(tmp_path, maxMessageSize="4096") as broker:
        await broker.send("orders", b"first")
        size = properties_size + (excess if grows != "body" else 0)
        names = {"UNIQ_KEY": "u" * size} if grows == "unique key" else with_size(size)
        request, body = sending("orders", **names), bytes(body_size + (excess if grows == "body" else 0))
        monkeypatch.setattr(collector, "COLUMNS_MIN", 1)

        if grows != "unique key" and excess:
            with pytest.raises(MessageIllegal):
                await broker.call(request, body)
        else:
            await broker.call(request, body)
            assert [message.body for message in await broker.messages("orders")] == [b"first", body]

        assert collected == ([] if excess else [1])


@pytest.mark.parametrize("excess", [0, 1])
async def test_a_send_that_fits_into_a_file_of_the_log_is_stored_as_columns(
    tmp_path: Path, collected: list[int], monkeypatch: pytest.MonkeyPatch, excess: int
) -> None:
    async with running(tmp_path, mappedFileSizeCommitLog=str(FILE_SIZE)) as broker:
        await broker.send("orders", b"first")
        monkeypatch.setattr(collector, "COLUMNS_MIN", 1)

        await broker.call(sending("orders", **with_size(100)), bytes(COLLECTED_SIZE_MAX - 100 + excess))

        assert collected == ([] if excess else [1])
        assert len(await broker.messages("orders")) == 2


@pytest.mark.parametrize("capacity", [COLUMNS_MIN - 1, COLUMNS_MIN])
async def test_sends_are_stored_together_up_to_the_capacity_of_the_request_queue(
    tmp_path: Path, collected: list[int], capacity: int
) -> None:
    async with running(tmp_path, sendThreadPoolQueueCapacity=str(capacity)) as broker:
        await broker.send("orders", b"first")

        request = sending("orders", UNIQ_KEY="u1")
        frames = [encode(JSON, code=310, opaque=number, ext=request.ext(), body=b"x") for number in range(COLUMNS_MIN)]
        async with await Peer.to(broker.broker.address) as peer:
            await peer.send(b"".join(frames))
            codes = [answer.code for answer in await peer.answers(COLUMNS_MIN)]

        assert codes.count(ResponseCode.SUCCESS) == capacity
        assert collected == ([COLUMNS_MIN] if capacity == COLUMNS_MIN else [])
        assert collector_of(broker).request_queue.under_way == 0


async def test_sends_without_room_are_refused_and_the_others_stored(tmp_path: Path) -> None:
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
    found = collect.__self__
    assert isinstance(found, SendCollector)
    return found
