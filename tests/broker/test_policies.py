"""No request reaches a processor or the store of a broker without passing its policies."""

from pathlib import Path
from typing import Any

import pytest

from kerolox.broker.send.columns import SendColumns
from kerolox.broker.send.header_blocks import FEW, HeaderBlock
from kerolox.codes import RequestCode, ResponseCode
from kerolox.message.plain_properties import PlainProperties
from kerolox.remoting.router import Router
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT
from tests.broker.brokers import BrokerFixture, running
from tests.broker.send.test_header_blocks import COUNT, frames_of, places
from tests.broker.test_longest_turn import KNOWN
from tests.policies import FORMS, REFUSAL, SwitchedPolicy
from tests.policies import frames_of as forms_of
from tests.remoting.support import Peer

SEND = RequestCode.SEND_MESSAGE_V2


def handled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the code of each request that gets past the policies."""
    codes: list[int] = []
    answer = Router._answer

    def note(router: Router, route: Any, request: Any, header: bytes = b"") -> Any:
        codes.append(request.code)
        return answer(router, route, request, header)

    monkeypatch.setattr(Router, "_answer", note)
    return codes


async def test_every_request_in_every_form_is_refused_by_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = SwitchedPolicy(is_refusing=True)
    codes = handled(monkeypatch)
    async with running(tmp_path, None, [policy]) as broker, await Peer.to(broker.broker.address) as peer:
        kinds = broker.broker.router.requests
        for kind in kinds.values():
            await peer.send(b"".join(forms_of(kind, KNOWN, 1)))
            answers = {answer.opaque: answer for answer in await peer.answers(FORMS)}

            assert sorted(answers) == list(range(1, FORMS + 1)), kind
            assert {(answer.code, answer.remark) for answer in answers.values()} == {
                (ResponseCode.NO_PERMISSION, REFUSAL)
            }, kind

    assert codes == []
    assert policy.decoded == dict.fromkeys(kinds, FORMS)


async def send_many(peer: Peer, frames: list[bytes]) -> dict[int, Any]:
    await peer.send(b"".join(frames))
    return {answer.opaque: answer for answer in await peer.answers(len(frames))}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks of sends that a template has read."""
    counts: list[int] = []
    add_block = SendColumns.add_block

    def note(sends: SendColumns, block: HeaderBlock, plain: PlainProperties) -> None:
        add_block(sends, block, plain)
        counts.append(len(block))

    monkeypatch.setattr(SendColumns, "add_block", note)
    return counts


def end_offset(broker: BrokerFixture) -> int:
    return broker.broker.store.log.end_offset


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_sends_whose_header_was_learnt_are_refused_after_the_policy_changes(
    tmp_path: Path, serialization: int, collected: list[int]
) -> None:
    policy = SwitchedPolicy()
    async with running(tmp_path, None, [policy]) as broker, await Peer.to(broker.broker.address) as peer:
        await broker.send("orders", b"first", 3)
        for first in (100_000, 200_000, 300_000):
            answers = await send_many(peer, frames_of(first, serialization=serialization))
            assert {answer.code for answer in answers.values()} == {ResponseCode.SUCCESS}
        assert sum(collected) >= COUNT
        assert policy.decoded[SEND] + policy.admitted_equal[SEND] == 3 * COUNT + 1
        assert policy.admitted_equal[SEND] == sum(collected)
        collected.clear()
        policy.is_refusing, end = True, end_offset(broker)

        answers = await send_many(peer, frames_of(400_000, serialization=serialization))

        assert {answer.code for answer in answers.values()} == {ResponseCode.NO_PERMISSION}
        assert {answer.remark for answer in answers.values()} == {REFUSAL}
        assert collected == []
        assert end_offset(broker) == end
        policy.is_refusing = False
        answers = await send_many(peer, frames_of(500_000, serialization=serialization))
        assert [code for _, code, *_ in places(answers)] == [ResponseCode.SUCCESS] * COUNT


async def test_only_admitted_sends_of_two_connections_are_stored(tmp_path: Path, collected: list[int]) -> None:
    class OfOne(SwitchedPolicy):
        """Refuses all but one connection."""

        admitted = ""

        def admit(self, request: Any) -> None:
            self.is_refusing = bool(self.admitted) and request.connection.remote != self.admitted
            super().admit(request)

        def admit_equal(self, request: Any, connection: Any, count: int) -> bool:
            self.is_refusing = bool(self.admitted) and connection.remote != self.admitted
            return super().admit_equal(request, connection, count)

    policy = OfOne()
    async with (
        running(tmp_path, None, [policy]) as broker,
        await Peer.to(broker.broker.address) as one,
        await Peer.to(broker.broker.address) as other,
    ):
        await broker.send("orders", b"first", 3)
        for peer, first in ((one, 100_000), (other, 200_000), (one, 300_000)):
            await send_many(peer, frames_of(first))
        assert collected
        collected.clear()
        policy.admitted = one.name

        for peer, first in ((one, 400_000), (other, 500_000)):
            peer.writer.write(b"".join(frames_of(first)))
        mine = {answer.code for answer in await one.answers(COUNT)}
        theirs = {answer.code for answer in await other.answers(COUNT)}

        assert (mine, theirs) == ({ResponseCode.SUCCESS}, {ResponseCode.NO_PERMISSION})
        assert sum(collected) == COUNT
        bodies = [message.body for queue_id in range(3) for message in await broker.messages("orders", queue_id)]
        assert sum(body.startswith(b"body4") for body in bodies) == COUNT
        assert not any(body.startswith(b"body5") for body in bodies)


async def test_oneway_sends_are_refused_too(tmp_path: Path) -> None:
    policy = SwitchedPolicy()
    async with running(tmp_path, None, [policy]) as broker, await Peer.to(broker.broker.address) as peer:
        await broker.send("orders", b"first", 3)
        for first in (100_000, 200_000, 300_000):
            await send_many(peer, frames_of(first))
        policy.is_refusing, end = True, end_offset(broker)

        await peer.send(b"".join(frames_of(400_000, flag=ONEWAY_BIT)))
        answers = await send_many(peer, frames_of(500_000, count=FEW))

        assert len(answers) == FEW
        assert end_offset(broker) == end


async def test_sends_that_are_decoded_together_are_each_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = SwitchedPolicy(is_refusing=True)
    codes = handled(monkeypatch)
    async with running(tmp_path, None, [policy]) as broker, await Peer.to(broker.broker.address) as peer:
        frames = [frame for n in range(COUNT) for frame in frames_of(n + 1, 1, names={"KEYS": "k" * (n % 7 + 1)})]
        answers = await send_many(peer, frames)

        assert {answer.code for answer in answers.values()} == {ResponseCode.NO_PERMISSION}
        assert len(answers) == COUNT

    assert policy.decoded == {SEND: COUNT}
    assert codes == []
