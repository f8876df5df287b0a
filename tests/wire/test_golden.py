"""Every frame that Java wrote is read and written again, byte for byte.

Where we write other bytes on purpose, the case is listed with the reason, and held to the closest thing that is equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kerolox.codes import RequestCode, Version
from kerolox.errors import ProtocolError, SystemFailure
from kerolox.runtime.text import fastjson
from kerolox.wire import command
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.registration import RegisterBrokerBody, decompress
from kerolox.wire.command import BINARY, JSON, Command
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import Header, ext_text
from tests.golden.recordings import VERSIONS, Direction, Recording, load
from tests.wire.declared import ANSWER_BODIES, REQUESTS, decoded_request, encoded_request, is_compressed


@dataclass(frozen=True, slots=True)
class Golden:
    """A decoded recording; a response refers to its request."""

    version: str
    recording: Recording
    command: Command
    question: Command

    @property
    def name(self) -> str:
        """The name of the case without the serialization."""
        return self.recording.case.partition("/")[2]

    @property
    def is_answer(self) -> bool:
        return self.recording.direction is Direction.RESPONSE


def read(frame: bytes) -> Command:
    reader = FrameReader()
    (found,) = reader.feed(frame)
    assert reader.broken is None
    return command.decode(found)


def goldens() -> Iterator[Golden]:
    for version in VERSIONS:
        question: Command | None = None
        for recording in load(version):
            found = read(recording.frame)
            if recording.direction is not Direction.RESPONSE:
                question = found
            assert question is not None
            yield Golden(version, recording, found, question)


GOLDENS = list(goldens())


def each(chosen: Iterator[Golden] | list[Golden]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "golden",
        [
            pytest.param(golden, id=f"{golden.version}-{golden.recording.case}-{golden.recording.direction.value}")
            for golden in chosen
        ],
    )


# Frames


@each(GOLDENS)
def test_a_frame_is_written_as_it_was_read(golden: Golden) -> None:
    assert golden.command.encode() == golden.recording.frame


@pytest.mark.parametrize("version", VERSIONS)
def test_all_frames_of_a_version_are_found_in_one_stream(version: str) -> None:
    frames = [golden.recording.frame for golden in GOLDENS if golden.version == version]
    stream = b"".join(frames)
    reader = FrameReader()

    # Chunks of 8191 bytes split the frames at different positions.
    found = [frame for start in range(0, len(stream), 8191) for frame in reader.feed(stream[start : start + 8191])]

    assert [command.decode(frame).encode() for frame in found] == frames


def test_the_answer_to_a_binary_request_is_binary_from_4_9_and_json_from_5() -> None:
    """4.9 answers exceptions in JSON as well."""
    for golden in GOLDENS:
        if golden.is_answer and golden.question.serialization == BINARY:
            is_exception = (golden.command.remark or "").startswith(("java.", "org.apache.", "com.alibaba."))
            is_json = golden.version >= "5" or is_exception
            assert golden.command.serialization == (JSON if is_json else BINARY), golden.recording.case


# Headers

# Java iterates a hash map of fields: fields outside the header class have arbitrary positions, and from 5.x on they
# also change the order of the others.
ORDER_DISTURBED = {"register-compressed", "route-zone", "route-other-zone"}

# A required field is missing or not a number: Java continues with null, we refuse.
HEADER_REFUSED = {
    "put-without-value": "missing required field `value`",
    "put-without-key": "missing required field `key`",
    "get-without-key": "missing required field `key`",
    "delete-without-key": "missing required field `key`",
    "register-without-name": "missing required field `brokerId`",
    "register-with-malformed-id": "Expected `int`, got `str` - at `$.brokerId`",
    "unregister-without-id": "missing required field `brokerId`",
    "route-without-topic": "missing required field `topic`",
}


def declared(golden: Golden) -> type[Header]:
    kind = REQUESTS[golden.recording.code]
    return kind.answer if golden.is_answer else kind


def has_fields(golden: Golden) -> bool:
    return golden.command.ext is not None and golden.recording.code in REQUESTS


def is_refused(golden: Golden) -> bool:
    return golden.name in HEADER_REFUSED and not golden.is_answer


@each([golden for golden in GOLDENS if has_fields(golden) and not is_refused(golden)])
def test_a_typed_header_is_written_as_it_was_read(golden: Golden) -> None:
    found = golden.command
    fields = declared(golden).decode(found.ext).ext()

    assert fields == ext_text(found.ext)
    if golden.name in ORDER_DISTURBED and not golden.is_answer:
        assert list(fields) != list(ext_text(found.ext)), "no longer disturbed: take it off the list"
        return
    assert framed_again(found, fields) == golden.recording.frame


def framed_again(found: Command, fields: dict[str, str]) -> bytes:
    return command.encode(
        found.serialization,
        code=found.code,
        opaque=found.opaque,
        flag=found.flag,
        language=found.language,
        version=found.version,
        remark=found.remark,
        ext=fields,
        body=found.body,
    )


@each([golden for golden in GOLDENS if has_fields(golden) and is_refused(golden)])
def test_the_error_for_a_missing_field_names_it(golden: Golden) -> None:
    with pytest.raises(SystemFailure) as raised:
        declared(golden).decode(golden.command.ext)

    assert HEADER_REFUSED[golden.name] in str(raised.value)


def test_every_code_that_was_recorded_is_declared() -> None:
    assert {golden.recording.code for golden in GOLDENS} - REQUESTS.keys() == {9999}


# Bodies

# Members that we and 5.x always write, and 4.9 does not have.
SINCE_5 = (b',"stateVersion":0', b',"enableActingMaster":false')
# Members of 5.x that a NameServer does not need and we drop.
NOT_KEPT = b'"topicQueueMappingDetailMap":{},'

# Strict JSON of 4.9 (fastjson 1, BrowserCompatible) escapes non-ASCII characters and slashes; ours follows 5.x.
ESCAPED = {("4.9.7", "route-order-not-ascii")}
# In 4.9 the embedded DataVersion has no stateVersion, so its size prefix differs too.
COMPRESSED_WITHOUT_STATE = {("4.9.7", "register-compressed")}
# Not JSON at all, or a case that only Java accepts: a group without a name.
BODY_REFUSED = {"register-with-malformed-body", "member-group-without-fields"}

PLAIN_TEXT = {RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG}


def is_strict(golden: Golden) -> bool:
    """Whether the requester gets standard JSON; a zone route is encoded again, not strictly."""
    asked = golden.question
    if not golden.is_answer or golden.recording.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return False
    fields = ext_text(asked.ext)
    if golden.version >= "5" and fields.get("__ZONE_MODE") == "true":
        return False
    return asked.version >= Version.V4_9_4 or fields.get("acceptStandardJsonOnly") == "true"


def decoded(golden: Golden) -> Body:
    body = (
        ANSWER_BODIES[golden.recording.code].decode(golden.command.body)
        if golden.is_answer
        else decoded_request(golden.command)
    )
    assert body is not None
    return body


def has_json(golden: Golden) -> bool:
    return bool(golden.command.body) and golden.recording.code not in PLAIN_TEXT


@each([golden for golden in GOLDENS if has_json(golden) and golden.name not in BODY_REFUSED])
def test_a_typed_body_is_written_as_it_was_read(golden: Golden) -> None:
    java = golden.command.body
    body = decoded(golden)

    ours = body.encode(strict=is_strict(golden)) if golden.is_answer else encoded_request(golden.command, body)

    case = golden.version, golden.name
    if golden.version == "4.9.7":
        for member in SINCE_5:
            ours = ours.replace(member, b"")
    elif not is_compressed(golden.command):
        java = java.replace(NOT_KEPT, b"")
    if case in COMPRESSED_WITHOUT_STATE:
        assert decompress(ours, golden.command.version) == body
    elif case in ESCAPED and golden.is_answer:
        assert ours != java, "no longer escaped: take it off the list"
        assert without_members_of_5(fastjson.parse(ours)) == fastjson.parse(java)
    else:
        assert ours == java


def without_members_of_5(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in ("stateVersion", "enableActingMaster")}
        return {key: without_members_of_5(item) for key, item in kept.items()}
    return [without_members_of_5(item) for item in value] if isinstance(value, list) else value


@each([golden for golden in GOLDENS if has_json(golden) and golden.name in BODY_REFUSED])
def test_an_invalid_body_is_refused(golden: Golden) -> None:
    with pytest.raises(ProtocolError):
        decoded(golden)


def test_the_dialect_decoder_agrees_with_the_fast_decoder() -> None:
    """Standard JSON normally never reaches the slow decoder; here both decode it and must agree."""
    for golden in GOLDENS:
        if has_json(golden) and golden.name not in BODY_REFUSED and not is_compressed(golden.command):
            body = decoded(golden)

            by_hand = fastjson.encode(fastjson.parse(golden.command.body))

            assert type(body).decode(by_hand) == body, golden.recording.case


def test_the_flavours_were_recorded_in_all_their_forms() -> None:
    flavours = {
        (golden.version, is_strict(golden), b'{"0":' in golden.command.body)
        for golden in GOLDENS
        if golden.recording.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and golden.is_answer and golden.command.body
    }

    assert flavours == {(version, flavour, flavour) for version, flavour in itertools.product(VERSIONS, (True, False))}


def test_a_registration_is_equal_in_both_serializations() -> None:
    bodies = {
        (golden.version, golden.recording.case): decoded(golden)
        for golden in GOLDENS
        if golden.recording.code == RequestCode.REGISTER_BROKER
        and has_json(golden)
        and not golden.is_answer
        and golden.name not in BODY_REFUSED
    }

    for (version, case), body in bodies.items():
        if case.startswith("json/"):
            assert isinstance(body, Body)
            assert body == bodies[version, case.replace("json/", "binary/")]
    assert any(isinstance(body, RegisterBrokerBody) for body in bodies.values())
