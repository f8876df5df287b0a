"""A command: one request or one answer, in memory and as a frame in either serialization."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from kerolox.codes import CURRENT_VERSION
from kerolox.errors import ProtocolError
from kerolox.runtime.fastjson import DECODE_ERRORS
from kerolox.wire import binary
from kerolox.wire.frames import FRAME_SIZE_MAX, PREFIX, Frame
from kerolox.wire.header import ExtFields, ext_text
from kerolox.wire.integers import Int32

JSON, BINARY = 0, 1

ANSWER_BIT, ONEWAY_BIT = 1, 2

# What has this size costs more to be copied than to be sent from where it is.
LARGE_SIZE = 16 * 1024

# A frame, or its pieces where they are large.
Answer: TypeAlias = bytes | list[bytes | memoryview]

_NO_FIELDS = msgspec.Raw()


class Command(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """What one frame says. The JSON header is decoded straight into it."""

    # In the order in which Java writes them, which is the fastest to read.
    code: Int32
    ext_fields: msgspec.Raw = _NO_FIELDS
    flag: Int32 = 0
    language: str | int | None = "JAVA"
    opaque: Int32
    remark: str | None = None
    # Who does not say is taken for the oldest, as in Java.
    version: Int32 = 0
    # The rest is not part of the header: set after it, under names that no header has.
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
        """Returns the frame; decoding a frame of Java's and encoding it again gives the same bytes."""
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
    """The members in the order in which Java writes them."""

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
    """Returns the command in a frame, or raises ProtocolError."""
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
    """Returns a frame. ProtocolError if it would be longer than a peer accepts."""
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
    """Returns the answer to most requests: in JSON, success, with nothing but a body."""
    header = _PLAIN_ANSWER % opaque
    header_size = len(header)
    size = 4 + header_size + len(body)
    if size + 4 > FRAME_SIZE_MAX:
        raise ProtocolError(f"frame of {size + 4} bytes, at most {FRAME_SIZE_MAX} allowed")
    return _pack_prefix(size, header_size) + header + body


def answer_template(fields: bytes, remark: bytes = b"") -> bytes:
    """Returns the JSON header of an answer of success, to be filled in with `%`, last the opaque.

    The fields are written already, as a template too: `"msgId":"%b","queueId":"%d"`. So is the remark, if there is one.
    """
    said = b',"remark":"%b"' % remark if remark else b""
    return _BEFORE_FIELDS + fields + _AFTER_FIELDS + said + _AFTER_OPAQUE


def written_answer(
    opaque: int, code: int, remark: str | None, fields: bytes, parts: Sequence[bytes | memoryview]
) -> Answer:
    """Returns an answer in JSON whose fields are written already."""
    said = b"" if remark is None else b',"remark":' + _encoder.encode(remark)
    return answer_in_parts(_WRITTEN_ANSWER % (code, fields, opaque, said), parts, sum(map(len, parts)))


def answer_in_parts(header: bytes, parts: Sequence[bytes | memoryview], parts_size: int) -> Answer:
    """Returns an answer whose JSON header is written already, and whose body comes in parts of so many bytes."""
    header_size = len(header)
    size = 4 + header_size + parts_size
    _check_size(size)
    return _assembled(_pack_prefix(size, header_size) + header, parts, size)


def binary_answer_with(section: bytes, opaque: int) -> bytes:
    """Returns an answer of success with a binary header whose fields are written already."""
    header = binary.answer_header(opaque, CURRENT_VERSION.value, section)
    header_size = len(header)
    return _pack_prefix(4 + header_size, BINARY << 24 | header_size) + header


def plain_answer_around(body: bytes) -> tuple[tuple[bytes, ...], bytes]:
    """Returns what precedes the opaque in a plain answer, by its number of digits, and what follows it."""
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
    """Returns the frame that answers the request with this `opaque`, in the serialization it came in.

    The body may also come in parts, which saves a copy of it.
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
