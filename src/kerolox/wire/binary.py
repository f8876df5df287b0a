"""The ROCKETMQ serialization: a header in binary.

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

# A code has 16 bits here. Those that do not fit arrive cut off, and are known by what is left of them.
_CUT_OFF = {code & 0xFFFF: code.value for code in RequestCode if code > 0x7FFF}

_LANGUAGES: dict[int, str] = {language.value: language.name for language in Language}
_LANGUAGE_CODES = {language.name: language.value for language in Language}

BinaryHeader = tuple[int, str | int, int, int, int, str | None, dict[str, str] | None]


def decode(header: bytes) -> BinaryHeader:
    """Returns code, language, version, opaque, flag, remark and fields; ProtocolError if a length is a lie."""
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
    fields: dict[str, str] = {}
    while start < end:
        try:
            (key_size,) = _KEY_SIZE.unpack_from(header, start)
            key_end = start + 2 + key_size
            (value_size,) = _INT.unpack_from(header, key_end)
        except struct.error as error:
            raise ProtocolError("a field of a binary header is cut off") from error
        value_end = key_end + 4 + value_size
        if key_size < 0 or value_size < 0 or value_end > end:
            raise ProtocolError(f"a field of {key_size} and {value_size} bytes in a section of {end - start}")
        if key_size and value_size:
            fields[header[start + 2 : key_end].decode()] = header[key_end + 4 : value_end].decode()
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
    section = b"".join(
        _KEY_SIZE.pack(len(key)) + key + _INT.pack(len(value)) + value
        for key, value in ((name.encode(), text.encode()) for name, text in (fields or {}).items())
    )
    fixed = _FIXED.pack(
        (code + 0x8000 & 0xFFFF) - 0x8000, _language_code(language), version, opaque, flag, len(remark_bytes)
    )
    return fixed + remark_bytes + _INT.pack(len(section)) + section


def _language_code(language: str | int | None) -> int:
    if isinstance(language, int):
        return language & 0xFF
    return _LANGUAGE_CODES.get(language or "OTHER", Language.OTHER.value)
