"""Error responses of the router, and the way of binary headers through it."""

from typing import Any

import pytest

from kerolox.codes import RequestCode, ResponseCode
from kerolox.errors import SystemFailure
from kerolox.remoting.router import Incoming, Later, Router, handles
from kerolox.wire import binary
from kerolox.wire.command import BINARY, JSON, ONEWAY_BIT, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.headers.messages import Pulled, PullMessage
from kerolox.wire.reply import Reply
from tests.remoting.support import Echo, get


class Outbox:
    """Stands for a connection that only sends."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, frame: Any) -> None:
        self.frames.append(frame)


@pytest.mark.parametrize(("flag", "count"), [(0, 1), (ONEWAY_BIT, 0)])
def test_a_failure_that_comes_later_is_reported_unless_the_request_is_oneway(flag: int, count: int) -> None:
    outbox = Outbox()
    request: Incoming[Any] = Incoming(
        code=RequestCode.GET_KV_CONFIG, opaque=7, flag=flag, header=get("k"), origin=outbox
    )

    Later(request).fail(SystemFailure("too late"))

    answers = [decode(frame) for data in outbox.frames for frame in FrameReader().feed(data)]
    assert [(answer.opaque, answer.code, answer.remark) for answer in answers] == [
        (7, ResponseCode.SYSTEM_ERROR, "too late")
    ] * count


@pytest.mark.parametrize(
    ("code", "has_fields"), [(RequestCode.GET_KV_CONFIG, True), (RequestCode.GET_KVLIST_BY_NAMESPACE, False)]
)
def test_an_error_response_has_a_table_of_fields_if_the_expected_response_has_fields(
    code: RequestCode, has_fields: bool
) -> None:
    # Neither has the required fields.
    (frame,) = FrameReader().feed(encode(JSON, code=code, opaque=1))

    answer = Router(Echo()).answer(frame, Outbox())  # type: ignore[arg-type]

    assert isinstance(answer, bytes)
    (answered,) = FrameReader().feed(answer)
    assert (b'"extFields"' in answered[1]) is has_fields


class Pulls:
    """Handles pulls, and notes the headers."""

    def __init__(self) -> None:
        self.headers: list[PullMessage] = []

    @handles(PullMessage)
    def pull(self, request: Incoming[PullMessage]) -> Reply[Pulled]:
        self.headers.append(request.header)
        return Reply(code=ResponseCode.PULL_NOT_FOUND)


def test_the_router_learns_from_binary_headers_and_decodes_the_next_by_template(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    header = PullMessage(
        consumer_group="g",
        topic="t",
        queue_id=1,
        queue_offset=2,
        max_msg_nums=3,
        sys_flag=0,
        commit_offset=4,
        suspend_timeout_millis=5,
        sub_version=6,
    )
    pulls = Pulls()
    router, outbox = Router(pulls), Outbox()
    frames = FrameReader().feed(
        b"".join(encode(BINARY, code=header.code, opaque=opaque, ext=header.ext()) for opaque in (8, 9))
    )

    router.answer(frames[0], outbox)  # type: ignore[arg-type]
    monkeypatch.setattr(binary, "decode", lambda header: pytest.fail("decoded without the template"))
    router.answer(frames[1], outbox)  # type: ignore[arg-type]

    assert pulls.headers == [header, header]
