"""The binary header, byte by byte."""

import struct

import pytest

from kerolox.codes import Language, RequestCode
from kerolox.errors import ProtocolError
from kerolox.wire import binary

HEADER = bytes.fromhex(
    "0069" "00" "0201" "00000007" "00000001" "00000002" "6f6b"  # code, language, version, opaque, flag, remark
    "00000010" "0005" "746f706963" "00000005" "5469746c65"  # fields: topic = Title
)  # fmt: skip


def header(remark: bytes = b"", fields: bytes = b"", language: int = 0, code: int = 105) -> bytes:
    fixed = struct.pack(">hBhii", code, language, 513, 7, 1)
    return fixed + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def field(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def test_the_layout_is_that_of_java_byte_by_byte() -> None:
    assert binary.decode(HEADER) == (105, "JAVA", 513, 7, 1, "ok", {"topic": "Title"})
    assert binary.encode(105, "JAVA", 513, 7, 1, "ok", {"topic": "Title"}) == HEADER


def test_the_shortest_header_has_twenty_one_bytes() -> None:
    shortest = binary.encode(105, "JAVA", 513, 7, 1, None, None)

    assert len(shortest) == 21
    assert binary.decode(shortest) == (105, "JAVA", 513, 7, 1, None, None)


def test_fields_keep_their_order() -> None:
    fields = {"z": "1", "a": "2", "м": "€"}

    *_, decoded = binary.decode(binary.encode(1, "JAVA", 1, 1, 0, None, fields))

    assert list((decoded or {}).items()) == list(fields.items())


def test_fields_with_an_empty_key_or_value_are_dropped() -> None:
    *_, decoded = binary.decode(header(fields=field(b"a", b"") + field(b"", b"b") + field(b"c", b"d")))

    assert decoded == {"c": "d"}


def test_the_last_value_of_a_repeated_key_counts() -> None:
    *_, decoded = binary.decode(header(fields=field(b"a", b"1") + field(b"a", b"2")))

    assert decoded == {"a": "2"}


@pytest.mark.parametrize("language", list(Language))
def test_a_language_travels_as_its_number(language: Language) -> None:
    encoded = binary.encode(1, language.name, 1, 1, 0, None, None)

    assert encoded[2] == language
    assert binary.decode(encoded)[1] == language.name


def test_an_unknown_language_keeps_its_number() -> None:
    decoded = binary.decode(header(language=200))

    assert decoded[1] == 200
    assert binary.encode(105, decoded[1], 513, 7, 1, None, None) == header(language=200)


@pytest.mark.parametrize("language", ["KLINGON", "", None])
def test_a_language_without_a_number_travels_as_other(language: str | None) -> None:
    assert binary.encode(1, language, 1, 1, 0, None, None)[2] == Language.OTHER


@pytest.mark.parametrize("code", [code for code in RequestCode if code > 0x7FFF])
def test_a_code_truncated_to_sixteen_bits_is_restored(code: RequestCode) -> None:
    encoded = binary.encode(code, "JAVA", 1, 1, 0, None, None)

    assert struct.unpack_from(">h", encoded)[0] == code & 0xFFFF
    assert binary.decode(encoded)[0] == code


def test_no_sixteen_bit_code_equals_a_truncated_one() -> None:
    short = [code for code in RequestCode if code <= 0x7FFF]

    assert [binary.decode(header(code=code))[0] for code in short] == short


def test_a_negative_code_stays_negative() -> None:
    assert binary.decode(binary.encode(-1000, "JAVA", 1, 1, 1, None, None))[0] == -1000


@pytest.mark.parametrize("size", range(21))
def test_less_than_the_shortest_header_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"binary header of {size} bytes, at least 21 needed"):
        binary.decode(HEADER[:size])


@pytest.mark.parametrize("size", range(21, len(HEADER)))
def test_a_header_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError):
        binary.decode(HEADER[:size])


@pytest.mark.parametrize("remark_size", [3, 2**31 - 1, -1, -(2**31)])
def test_a_remark_that_is_longer_than_the_header_is_refused(remark_size: int) -> None:
    lying = header(b"ok")[:13] + struct.pack(">i", remark_size) + header(b"ok")[17:]

    with pytest.raises(ProtocolError, match=f"remark of {remark_size} bytes in a header of 23"):
        binary.decode(lying)


@pytest.mark.parametrize("fields_size", [8, 2**31 - 1, -1, -(2**31)])
def test_fields_that_are_longer_than_the_header_are_refused(fields_size: int) -> None:
    honest = header(fields=field(b"a", b""))
    lying = honest[:17] + struct.pack(">i", fields_size) + honest[21:]

    with pytest.raises(ProtocolError, match=f"fields of {fields_size} bytes in a header of 28"):
        binary.decode(lying)


@pytest.mark.parametrize(
    "section",
    [
        struct.pack(">h", 2) + b"a" + struct.pack(">i", 0),
        struct.pack(">h", -1) + b"a" + struct.pack(">i", 0),
        struct.pack(">h", 32767) + b"a",
        struct.pack(">h", 1) + b"a" + struct.pack(">i", 1),
        struct.pack(">h", 1) + b"a" + struct.pack(">i", -1),
        struct.pack(">h", 1) + b"a" + struct.pack(">i", -7),
        struct.pack(">h", 1) + b"a" + struct.pack(">i", 2**31 - 1),
        b"\x00",
        field(b"a", b"b") + b"\x00\x01a",
    ],
    ids=lambda section: section.hex(),
)
def test_a_field_that_lies_about_its_size_is_refused(section: bytes) -> None:
    with pytest.raises(ProtocolError):
        binary.decode(header(fields=section))


def test_bytes_after_the_fields_are_ignored() -> None:
    assert binary.decode(HEADER + b"more") == binary.decode(HEADER)


@pytest.mark.parametrize(
    "damaged", [header(b"\xff"), header(fields=field(b"\xff", b"a")), header(fields=field(b"a", b"\xed\xa0\x80"))]
)
def test_text_that_is_not_utf8_is_a_unicode_error_that_the_command_translates(damaged: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        binary.decode(damaged)


def test_names_of_one_letter_are_read_like_any_other() -> None:
    values = {"a": "text", "b": "€", "c": "x" * 200, "topic": "Title", "d": "1"}

    *_, decoded = binary.decode(binary.encode(310, "JAVA", 1, 1, 0, None, values))

    assert decoded == values


@pytest.mark.parametrize("value", [b"\xff", b"\xc3"])
def test_a_value_that_is_not_utf8_is_refused(value: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        binary.decode(header(fields=field(b"a", value)))


def test_a_response_from_preencoded_fields_equals_the_encoded_one() -> None:
    fields = {"msgId": "7F00", "queueId": "0"}

    written = binary.answer_header(7, 513, binary.encode_fields(fields))

    assert written == binary.encode(0, "JAVA", 513, 7, 1, None, fields)
