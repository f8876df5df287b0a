"""The ROCKETMQ serialization of headers, in binary (RocketMQSerializable).

int16  code            int32 + n   remark, in UTF-8
int8   language        int32 + n   fields: int16 + key, int32 + value, until the section ends
int16  version
int32  opaque
int32  flag
"""

import struct

from kerolox.codes import Language, RequestCode
from kerolox.errors import ProtocolError

_FIXED = struct.Struct(">hBhiii")
_INT = struct.Struct(">i")
_KEY_SIZE = struct.Struct(">h")
# A field with a name of one letter, as most fields of the most frequent requests have: name size, name, value size.
_LETTER = struct.Struct(">hci")
_letters = {bytes((byte,)): chr(byte) for byte in range(128)}

# A code has 16 bits here. Larger codes arrive truncated, and are recognized by their low 16 bits.
_CUT_OFF = {code & 0xFFFF: code.value for code in RequestCode if code > 0x7FFF}

_LANGUAGES: dict[int, str] = {language.value: language.name for language in Language}
_LANGUAGE_CODES = {language.name: language.value for language in Language}

BinaryHeader = tuple[int, str | int, int, int, int, str | None, dict[str, str] | None]


def decode(header: bytes) -> BinaryHeader:
    """Return code, language, version, opaque, flag, remark and fields; ProtocolError if a length is wrong."""
    size = len(header)
    if size < _FIXED.size + 4:
        raise ProtocolError(f"binary header of {size} bytes, at least {_FIXED.size + 4} needed")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    start = _FIXED.size
    if not 0 <= remark_size <= size - start - 4:
        raise ProtocolError(f"remark of {remark_size} bytes in a header of {size}")
    remark = header[start : start + remark_size].decode() or None
    start += remark_size
    (fields_size,) = _INT.unpack_from(header, start)
    start += 4
    if not 0 <= fields_size <= size - start:
        raise ProtocolError(f"fields of {fields_size} bytes in a header of {size}")
    fields = _decode_fields(header, start, start + fields_size) if fields_size else None
    return _CUT_OFF.get(code, code), _LANGUAGES.get(language, language), version, opaque, flag, remark, fields


def _decode_fields(header: bytes, start: int, end: int) -> dict[str, str]:
    """Return the fields of a section, without those with an empty name or value."""
    fields: dict[str, str] = {}
    unpack, letters, at = _LETTER.unpack_from, _letters, start
    # Slicing one decoded text is cheaper than decoding each value, and equal for ASCII.
    text = header.decode("latin-1")
    while end - at >= 7:
        key_size, letter, value_size = unpack(header, at)
        stop = at + 7 + value_size
        if key_size != 1 or value_size <= 0 or stop > end or letter not in letters:
            break
        value = text[at + 7 : stop]
        fields[letters[letter]] = value if value.isascii() else header[at + 7 : stop].decode()
        at = stop
    return _decode_rest(header, text, at, end, fields) if at < end else fields


def _cut(header: bytes, text: str, start: int, end: int) -> str:
    cut = text[start:end]
    return cut if cut.isascii() else header[start:end].decode()


def _decode_rest(header: bytes, text: str, start: int, end: int, fields: dict[str, str]) -> dict[str, str]:
    while start < end:
        try:
            (key_size,) = _KEY_SIZE.unpack_from(header, start)
            key_end = start + 2 + key_size
            (value_size,) = _INT.unpack_from(header, key_end)
        except struct.error as error:
            raise ProtocolError("truncated field in a binary header") from error
        value_end = key_end + 4 + value_size
        if key_size < 0 or value_size < 0 or value_end > end:
            raise ProtocolError(f"field of {key_size} and {value_size} bytes in a section of {end - start}")
        if key_size and value_size:
            fields[_cut(header, text, start + 2, key_end)] = _cut(header, text, key_end + 4, value_end)
        start = value_end
    return fields


def encode(
    code: int,
    language: str | int | None,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    fields: dict[str, str] | None,
) -> bytes:
    remark_bytes = (remark or "").encode()
    section = encode_fields(fields) if fields else b""
    fixed = _FIXED.pack(
        (code + 0x8000 & 0xFFFF) - 0x8000, _language_code(language), version, opaque, flag, len(remark_bytes)
    )
    return fixed + remark_bytes + _INT.pack(len(section)) + section


def encode_fields(fields: dict[str, str]) -> bytes:
    """Return the fields as a section of a binary header."""
    parts: list[bytes] = []
    for name, text in fields.items():
        key, value = name.encode(), text.encode()
        parts += (_KEY_SIZE.pack(len(key)), key, _INT.pack(len(value)), value)
    return b"".join(parts)


_ANSWER = struct.Struct(">hBhiiii")


def answer_header(opaque: int, version: int, section: bytes) -> bytes:
    """Return the header of a successful response from an encoded section of fields."""
    return _ANSWER.pack(0, Language.JAVA.value, version, opaque, 1, 0, len(section)) + section


def _language_code(language: str | int | None) -> int:
    if isinstance(language, int):
        return language & 0xFF
    return _LANGUAGE_CODES.get(language or "OTHER", Language.OTHER.value)
