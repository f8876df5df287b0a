"""Commands in both serializations."""

import json

import pytest

from kerolox.codes import CURRENT_VERSION, RequestCode
from kerolox.errors import ProtocolError
from kerolox.wire import command
from kerolox.wire.command import BINARY, JSON, Command
from kerolox.wire.frames import FRAME_SIZE_MAX, FrameReader
from kerolox.wire.header import ext_text
from kerolox.wire.headers.namesrv import GetKVConfig

SERIALIZATIONS = pytest.mark.parametrize("serialization", [JSON, BINARY], ids=["json", "binary"])


def read(frame: bytes) -> Command:
    (found,) = FrameReader().feed(frame)
    return command.decode(found)


def from_json(header: str | bytes, body: bytes = b"") -> Command:
    return command.decode((JSON, header if isinstance(header, bytes) else header.encode(), body))


def test_a_request_in_json_reads_as_java_writes_it() -> None:
    frame = command.encode(JSON, code=105, opaque=7, ext={"topic": "TopicTest"}, body=b"body")

    assert frame[8:] == (
        b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}body'
    )


@SERIALIZATIONS
def test_decode_inverts_encode(serialization: int) -> None:
    frame = command.encode(
        serialization,
        code=105,
        opaque=2**31 - 1,
        flag=3,
        language="GO",
        version=317,
        remark='größer\n"€" 😀',
        ext={"topic": "тема", "n": "7"},
        body=b"\x00\xff",
    )

    read_back = read(frame)

    assert (read_back.code, read_back.opaque, read_back.flag) == (105, 2**31 - 1, 3)
    assert (read_back.language, read_back.version) == ("GO", 317)
    assert read_back.remark == 'größer\n"€" 😀'
    assert ext_text(read_back.ext) == {"topic": "тема", "n": "7"}
    assert read_back.body == b"\x00\xff"
    assert read_back.serialization == serialization
    assert read_back.encode() == frame


@SERIALIZATIONS
def test_a_command_without_fields_remark_and_body_stays_without(serialization: int) -> None:
    frame = command.encode(serialization, code=206, opaque=1)

    read_back = read(frame)

    assert (read_back.ext, read_back.remark, read_back.body) == (None, None, b"")
    assert read_back.encode() == frame


def test_json_distinguishes_empty_fields_from_no_fields() -> None:
    """Java sends `"extFields":{}` in some responses; the binary form cannot express it."""
    frame = command.encode(JSON, code=0, opaque=1, flag=1, ext={})

    assert b'"extFields":{}' in frame
    assert read(frame).encode() == frame
    assert read(command.encode(BINARY, code=0, opaque=1, flag=1, ext={})).ext is None


@SERIALIZATIONS
@pytest.mark.parametrize(
    ("flag", "is_answer", "is_oneway"), [(0, False, False), (1, True, False), (2, False, True), (3, True, True)]
)
def test_the_flag_is_two_bits(serialization: int, flag: int, is_answer: bool, is_oneway: bool) -> None:
    read_back = read(command.encode(serialization, code=1, opaque=1, flag=flag))

    assert (read_back.is_answer, read_back.is_oneway) == (is_answer, is_oneway)


def test_unknown_bits_of_the_flag_are_ignored() -> None:
    assert from_json('{"code":1,"opaque":1,"flag":-4}').is_answer is False
    assert from_json('{"code":1,"opaque":1,"flag":-3}').is_answer is True


def test_absent_members_have_javas_defaults() -> None:
    """A request without a version counts as the oldest version, and gets no strict JSON."""
    found = from_json('{"code":105,"opaque":1}')

    assert (found.flag, found.language, found.version, found.remark, found.ext) == (0, "JAVA", 0, None, None)


def test_our_own_commands_carry_our_version() -> None:
    assert read(command.encode(JSON, code=105, opaque=1)).version == CURRENT_VERSION


def test_null_members_count_as_absent() -> None:
    found = from_json('{"code":1,"opaque":1,"remark":null,"extFields":null,"language":null}')

    assert (found.remark, ext_text(found.ext), found.language) == (None, {}, None)


@pytest.mark.parametrize("header", ['{"opaque":1}', '{"code":1}', "{}"])
def test_code_and_opaque_must_be_there(header: str) -> None:
    with pytest.raises(ProtocolError, match="header cannot be read: Object missing required field"):
        from_json(header)


@pytest.mark.parametrize("member", ['"x":1', '"serializeTypeCurrentRPC":"JSON"', '"body":null', '"serialization":"x"'])
def test_unknown_members_are_not_read(member: str) -> None:
    found = from_json(f'{{"code":1,{member},"opaque":2}}', b"body")

    assert (found.code, found.opaque, found.body, found.serialization) == (1, 2, b"body", JSON)


def test_a_header_cannot_bring_its_own_body() -> None:
    found = from_json('{"code":1,"opaque":1,"body":"AAAA"," body":"AAAA","binaryExt":{"a":"b"}," serialization":1}')

    assert (found.body, found.ext, found.serialization) == (b"", None, JSON)


@pytest.mark.parametrize("language", [0, 9, 200, "GO", "NODE_JS", "KLINGON", ""])
def test_a_language_may_be_a_number_or_an_unknown_name(language: int | str) -> None:
    assert from_json(json.dumps({"code": 1, "opaque": 1, "language": language})).language == language


def test_numbers_and_booleans_in_fields_are_text() -> None:
    """The C++ and JavaScript clients send them unquoted."""
    found = from_json('{"code":1,"opaque":1,"extFields":{"a":7,"b":true,"c":false,"d":-1.5,"e":"x","f":null,"g":[1]}}')

    assert ext_text(found.ext) == {"a": "7", "b": "true", "c": "false", "d": "-1.5", "e": "x", "g": "[1]"}


def test_ext_fields_that_are_not_an_object_are_none() -> None:
    assert ext_text(from_json('{"code":1,"opaque":1,"extFields":[1]}').ext) == {}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"code":1,"opaque":1}x',
        b'{"code":"x","opaque":1}',
        b'{"code":1,"opaque":2147483648}',
        b'{"code":-2147483649,"opaque":1}',
        b'{"code":1.5,"opaque":1}',
        b'{"code":1,"opaque":1,"remark":"\xff"}',
        b'{"code":1,"opaque":1,"remark":"\\ud800"}',
        b'{"code":1,"opaque":1,"extFields":{"a":"b}}',
        b'{"code":1,"opaque":1,"extFields":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"code":' + b"1" * 5000 + b',"opaque":1}',
    ],
    ids=lambda header: header[:40].decode("latin-1"),
)
def test_an_invalid_header_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="header cannot be read"):
        from_json(header)


def test_fields_that_are_not_utf8_are_a_protocol_error_when_they_are_read() -> None:
    """Fields are decoded lazily, so a command whose fields are not read passes."""
    found = from_json(b'{"code":1,"opaque":1,"extFields":{"a":"\xff"}}')

    with pytest.raises(ProtocolError, match="fields cannot be read"):
        found.encode()


@pytest.mark.parametrize("serialization", [2, 123, 255])
def test_an_unknown_serialization_is_a_protocol_error(serialization: int) -> None:
    with pytest.raises(ProtocolError, match=f"serialization {serialization}, known are 0"):
        command.decode((serialization, b"{}", b""))


@SERIALIZATIONS
def test_a_response_has_the_opaque_and_the_response_bit(serialization: int) -> None:
    frame = command.encode_answer(serialization, 42, 22, "not found", {"value": "v"}, b"body")
    assert isinstance(frame, bytes)
    found = read(frame)

    assert (found.opaque, found.code, found.remark, found.flag) == (42, 22, "not found", 1)
    assert (ext_text(found.ext), found.body, found.serialization) == ({"value": "v"}, b"body", serialization)


@pytest.mark.parametrize("opaque", [0, -1, 2**31 - 1, -(2**31)])
def test_a_plain_response_equals_the_encoded_command(opaque: int) -> None:
    plain = command.encode_answer(JSON, opaque, 0, None, None, b"body")

    assert plain == command.encode(JSON, code=0, opaque=opaque, flag=1, body=b"body")


@SERIALIZATIONS
def test_encoding_a_frame_over_the_size_limit_fails(serialization: int) -> None:
    empty = command.encode(serialization, code=1, opaque=1)
    room = FRAME_SIZE_MAX - len(empty)

    assert len(command.encode(serialization, code=1, opaque=1, body=bytes(room))) == FRAME_SIZE_MAX
    with pytest.raises(ProtocolError, match="frame of 16777217 bytes, at most 16777216 allowed"):
        command.encode(serialization, code=1, opaque=1, body=bytes(room + 1))


def test_codes_over_sixteen_bits_are_restored_from_the_low_bits() -> None:
    frame = command.encode(BINARY, code=RequestCode.POP_MESSAGE, opaque=1)

    assert frame[8:10] == (3442).to_bytes(2, "big")
    assert read(frame).code == RequestCode.POP_MESSAGE
    assert read(command.encode(JSON, code=RequestCode.POP_MESSAGE, opaque=1)).code == RequestCode.POP_MESSAGE


def test_a_typed_header_travels_in_both_serializations() -> None:
    header = GetKVConfig(namespace="NS", key="ключ")

    for serialization in (JSON, BINARY):
        frame = command.encode(serialization, code=header.code, opaque=1, ext=header.ext())
        assert GetKVConfig.decode(read(frame).ext) == header
