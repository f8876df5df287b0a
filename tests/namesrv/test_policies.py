"""No request is answered by a NameServer without passing its policies, not even from the response cache."""

from kerolox.codes import RequestCode, ResponseCode
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.runtime.clock import ManualClock
from kerolox.wire.command import JSON, encode
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture
from tests.namesrv.test_longest_turn import KNOWN
from tests.policies import FORMS, REFUSAL, SwitchedPolicy, frames_of
from tests.remoting.support import Peer


async def test_every_request_in_every_form_is_refused_by_the_policy(config: NamesrvConfig) -> None:
    policy = SwitchedPolicy(is_refusing=True)
    async with NameServer(config, policies=[policy]) as server, await Peer.to(server.address) as peer:
        kinds = server.router.requests
        for kind in kinds.values():
            await peer.send(b"".join(frames_of(kind, KNOWN, 1)))
            answers = {answer.opaque: answer for answer in await peer.answers(FORMS)}

            assert sorted(answers) == list(range(1, FORMS + 1)), kind
            assert {(answer.code, answer.remark) for answer in answers.values()} == {
                (ResponseCode.NO_PERMISSION, REFUSAL)
            }, kind

    assert policy.decoded == dict.fromkeys(kinds, FORMS)


def question(opaque: int) -> bytes:
    return encode(JSON, code=RequestCode.GET_ROUTEINFO_BY_TOPIC, opaque=opaque, ext={"topic": "T"})


async def test_cached_responses_are_refused_after_the_policy_changes(config: NamesrvConfig) -> None:
    policy = SwitchedPolicy()
    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    async with NameServer(config, policies=[policy]) as server, await Peer.to(server.address) as peer:
        namesrv = NamesrvFixture(server, ManualClock())
        await namesrv.broker().register(*STANDARD_TOPICS)
        await peer.send(question(1))
        assert (await peer.answer()).code == ResponseCode.SUCCESS
        await peer.send(question(2) + question(3))
        assert [answer.code for answer in await peer.answers(2)] == [ResponseCode.SUCCESS] * 2
        assert (policy.decoded[code], policy.admitted_equal[code]) == (1, 2)
        policy.is_refusing = True

        await peer.send(question(4) + question(5))
        answers = await peer.answers(2)

        assert [(answer.opaque, answer.code, answer.remark) for answer in answers] == [
            (4, ResponseCode.NO_PERMISSION, REFUSAL),
            (5, ResponseCode.NO_PERMISSION, REFUSAL),
        ]
        assert policy.decoded[code] == 3
        await namesrv.close()
