"""A command: one request or response, in memory and as a frame in either serialization (RemotingCommand)."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kerolox.codes import CURRENT_VERSION
from kerolox.errors import ProtocolError
from kerolox.runtime.text.fastjson import DECODE_ERRORS
from kerolox.wire import binary
from kerolox.wire.frames import FRAME_SIZE_MAX, PREFIX, Frame
from kerolox.wire.header import ExtFields, ext_text
from kerolox.wire.integers import Int32

JSON, BINARY = 0, 1

ANSWER_BIT, ONEWAY_BIT = 1, 2

# From this size on, copying a piece costs more than passing it to the socket separately.
LARGE_SIZE = 16 * 1024

# A frame, or the pieces of a large one.
Answer: TypeAlias = bytes | list[bytes | memoryview]

_NO_FIELDS = msgspec.Raw()


class Command(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The content of one frame. A JSON header is decoded straight into it."""

    # In the order in which Java writes the fields: msgspec decodes that fastest.
    code: Int32
    ext_fields: msgspec.Raw = _NO_FIELDS
    flag: Int32 = 0
    language: str | int | None = "JAVA"
    opaque: Int32
    remark: str | None = None
    # Without a version a client counts as the oldest, as in Java.
    version: Int32 = 0
    # Not part of the header. The names contain a space, so that no field of a header collides with them.
    binary_ext: dict[str, str] | None = msgspec.field(name=" binaryExt", default=None)
    body: bytes = msgspec.field(name=" body", default=b"")
    serialization: int = msgspec.field(name=" serialization", default=JSON)

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & ANSWER_BIT)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_BIT)

    @property
    def ext(self) -> ExtFields:
        if self.serialization == BINARY:
            return self.binary_ext
        return None if self.ext_fields is _NO_FIELDS else self.ext_fields

    def encode(self) -> bytes:
        """Return the frame. A frame of Java that is decoded and encoded again has the same bytes."""
        ext = self.ext
        return encode(
            self.serialization,
            code=self.code,
            opaque=self.opaque,
            flag=self.flag,
            language=self.language,
            version=self.version,
            remark=self.remark,
            ext=None if ext is None else ext_text(ext),
            body=self.body,
        )


class _JsonHeader(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The JSON members in the order in which Java writes them."""

    code: int
    ext_fields: dict[str, str] | None = None
    flag: int
    language: str | int | None
    opaque: int
    remark: str | None = None
    serialize_type: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


_decoder = msgspec.json.Decoder(Command)
_encoder = msgspec.json.Encoder()


def decode(frame: Frame) -> Command:
    """Return the command in a frame, or raise ProtocolError."""
    serialization, header, body = frame
    try:
        if serialization == JSON:
            command = _decoder.decode(header)
            command.serialization = JSON
        elif serialization == BINARY:
            code, language, version, opaque, flag, remark, ext = binary.decode(header)
            command = Command(
                code=code,
                language=language,
                version=version,
                opaque=opaque,
                flag=flag,
                remark=remark,
                binary_ext=ext,
                serialization=BINARY,
            )
        else:
            raise ProtocolError(f"serialization {serialization}, known are {JSON} (JSON) and {BINARY} (ROCKETMQ)")
    except DECODE_ERRORS as error:
        raise ProtocolError(f"header cannot be read: {error}") from error
    command.body = body
    return command


def encode(
    serialization: int,
    *,
    code: int,
    opaque: int,
    flag: int = 0,
    language: str | int | None = "JAVA",
    version: int = CURRENT_VERSION.value,
    remark: str | None = None,
    ext: dict[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """Return a frame; ProtocolError if it exceeds FRAME_SIZE_MAX."""
    if serialization == JSON:
        header = _encoder.encode(
            _JsonHeader(
                code=code,
                ext_fields=ext,
                flag=flag,
                language=language,
                opaque=opaque,
                remark=remark,
                serialize_type="JSON",
                version=version,
            )
        )
    else:
        header = binary.encode(code, language, version, opaque, flag, remark, ext)
    return _framed(serialization, header, body)


_BEFORE_OPAQUE = b'{"code":0,"flag":1,"language":"JAVA","opaque":'
_AFTER_OPAQUE = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % CURRENT_VERSION
_PLAIN_ANSWER = _BEFORE_OPAQUE + b"%d" + _AFTER_OPAQUE
_BEFORE_FIELDS, _AFTER_FIELDS = b'{"code":0,"extFields":{', b'},"flag":1,"language":"JAVA","opaque":%d'
_WRITTEN_ANSWER = b'{"code":%d,"extFields":{%b},"flag":1,"language":"JAVA","opaque":%d%b' + _AFTER_OPAQUE
_pack_prefix = PREFIX.pack

OPAQUE_DIGITS_MAX = 9


def plain_answer(opaque: int, body: bytes) -> bytes:
    """Return a JSON response with code SUCCESS, a body and no fields."""
    header = _PLAIN_ANSWER % opaque
    header_size = len(header)
    size = 4 + header_size + len(body)
    if size + 4 > FRAME_SIZE_MAX:
        raise ProtocolError(f"frame of {size + 4} bytes, at most {FRAME_SIZE_MAX} allowed")
    return _pack_prefix(size, header_size) + header + body


def answer_template(fields: bytes, remark: bytes = b"") -> bytes:
    """Return a JSON header of a successful response as a `%` template, whose last value is the opaque.

    `fields` is a template, too: `"msgId":"%b","queueId":"%d"`. `remark` is escaped already.
    """
    remark_member = b',"remark":"%b"' % remark if remark else b""
    return _BEFORE_FIELDS + fields + _AFTER_FIELDS + remark_member + _AFTER_OPAQUE


def written_answer(
    opaque: int, code: int, remark: str | None, fields: bytes, parts: Sequence[bytes | memoryview]
) -> Answer:
    """Return a JSON response from encoded fields."""
    remark_member = b"" if remark is None else b',"remark":' + _encoder.encode(remark)
    return answer_in_parts(_WRITTEN_ANSWER % (code, fields, opaque, remark_member), parts, sum(map(len, parts)))


def answer_in_parts(header: bytes, parts: Sequence[bytes | memoryview], parts_size: int) -> Answer:
    """Return a JSON response from an encoded header and a body in parts of `parts_size` bytes together."""
    header_size = len(header)
    size = 4 + header_size + parts_size
    _check_size(size)
    return _assembled(_pack_prefix(size, header_size) + header, parts, size)


def binary_answer_with(section: bytes, opaque: int) -> bytes:
    """Return a successful response with a binary header, from an encoded section of fields."""
    header = binary.answer_header(opaque, CURRENT_VERSION.value, section)
    header_size = len(header)
    return _pack_prefix(4 + header_size, BINARY << 24 | header_size) + header


def plain_answer_around(body: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Return what precedes the opaque of a plain response, by its number of digits, and what follows it."""
    header_sizes = range(len(_BEFORE_OPAQUE) + len(_AFTER_OPAQUE), len(_PLAIN_ANSWER) + OPAQUE_DIGITS_MAX - 1)
    befores = tuple(_pack_prefix(4 + size + len(body), size) + _BEFORE_OPAQUE for size in header_sizes)
    return befores, _AFTER_OPAQUE + body


def encode_answer(
    serialization: int,
    opaque: int,
    code: int,
    remark: str | None,
    ext: dict[str, str] | None,
    body: bytes,
    parts: Sequence[bytes | memoryview] = (),
) -> Answer:
    """Return the response to the request with this `opaque`, in the serialization of the request.

    Pass the body in `parts` to avoid copying it.
    """
    if not parts:
        return encode(serialization, code=code, opaque=opaque, flag=ANSWER_BIT, remark=remark, ext=ext, body=body)
    frame = encode(serialization, code=code, opaque=opaque, flag=ANSWER_BIT, remark=remark, ext=ext)
    header_size = len(frame) - PREFIX.size
    size = 4 + header_size + sum(map(len, parts))
    _check_size(size)
    prefix = PREFIX.pack(size, serialization << 24 | header_size)
    return _assembled(prefix + frame[PREFIX.size :], parts, size)


def _assembled(head: bytes, parts: Sequence[bytes | memoryview], size: int) -> Answer:
    return [head, *parts] if size >= LARGE_SIZE else b"".join([head, *parts])


def _framed(serialization: int, header: bytes, body: bytes) -> bytes:
    header_size = len(header)
    size = 4 + header_size + len(body)
    _check_size(size)
    return PREFIX.pack(size, serialization << 24 | header_size) + header + body


def _check_size(size: int) -> None:
    if size + 4 > FRAME_SIZE_MAX:
        raise ProtocolError(f"frame of {size + 4} bytes, at most {FRAME_SIZE_MAX} allowed")
