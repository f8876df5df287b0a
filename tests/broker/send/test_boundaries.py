"""Limits of sends at their exact values, on every path."""

from pathlib import Path

import pytest

from kerolox.broker.send.collector import FEW
from kerolox.codes import ResponseCode
from kerolox.errors import SystemFailure
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import BINARY, JSON
from tests.broker.brokers import BrokerFixture, running, sending
from tests.broker.send.test_uniform import COUNT, frames_of
from tests.remoting.support import Peer


async def codes_by_queue(broker: BrokerFixture, peer: Peer, first: int, serialization: int) -> dict[int, set[int]]:
    """Sends many frames over five queues at once; returns the response codes by requested queue."""
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
