"""Compressed bodies: restored, and never beyond a bound."""

from __future__ import annotations

import importlib
import importlib.util
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerolox.message import compression, sysflag
from kerolox.message.errors import CompressionError
from kerolox.message.sysflag import CompressionType

PACKAGES = {CompressionType.LZ4: "lz4", CompressionType.ZSTD: "zstandard"}
BODY = b"again and again, " * 1000


def kinds() -> list[CompressionType]:
    """Those whose packages are here."""
    return [kind for kind in CompressionType if kind not in PACKAGES or importlib.util.find_spec(PACKAGES[kind])]


each_kind = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)


def flag(kind: CompressionType) -> int:
    return sysflag.with_compression(0, kind)


@each_kind
@given(body=st.binary(max_size=300))
def test_a_body_is_restored(kind: CompressionType, body: bytes) -> None:
    assert compression.decompress(compression.compress(body, kind), flag(kind), len(body)) == body


@each_kind
def test_a_body_becomes_smaller(kind: CompressionType) -> None:
    assert len(compression.compress(BODY, kind)) < len(BODY) / 10


@pytest.mark.skipif(CompressionType.LZ4 not in kinds(), reason="lz4 is not installed")
def test_blocks_of_lz4_do_not_lean_on_each_other() -> None:
    """Java reads no others, and drops the message and all that came with it in one pull."""
    compressed = compression.compress(BODY * 20, CompressionType.LZ4)

    frame_flags = compressed[4]
    assert frame_flags & 0x20


@each_kind
def test_a_body_longer_than_allowed_is_refused(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)

    assert compression.decompress(compressed, flag(kind), len(BODY)) == BODY
    with pytest.raises(CompressionError, match=f"{kind.name} body of more than {len(BODY) - 1} bytes"):
        compression.decompress(compressed, flag(kind), len(BODY) - 1)


@each_kind
def test_a_body_cut_anywhere_is_refused(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)
    for size in range(len(compressed)):
        with pytest.raises(CompressionError):
            compression.decompress(compressed[:size], flag(kind), len(BODY))


@each_kind
def test_a_changed_byte_raises_nothing_else(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)
    for at in range(len(compressed)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(compressed)
            changed[at] ^= change
            try:
                assert len(compression.decompress(bytes(changed), flag(kind), len(BODY))) <= len(BODY)
            except CompressionError:
                continue


def test_who_names_no_type_means_zlib() -> None:
    assert compression.decompress(zlib.compress(BODY), sysflag.COMPRESSED, len(BODY)) == BODY


def test_what_was_not_compressed_is_left_alone() -> None:
    assert compression.decompress(BODY, 0x300, 0) is BODY


@pytest.mark.parametrize("number", range(4, 8))
def test_a_type_nobody_knows_is_refused(number: int) -> None:
    with pytest.raises(CompressionError, match=f"compression type {number}, known are 0 to 3"):
        compression.decompress(BODY, number << 8 | sysflag.COMPRESSED, len(BODY))


@pytest.mark.parametrize("kind", PACKAGES, ids=lambda kind: kind.name)
def test_a_package_that_is_missing_is_named(kind: CompressionType, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", nowhere)

    complaint = rf"{kind.name} bodies need the package {PACKAGES[kind]}: pip install '.*\[compression\]'"
    with pytest.raises(CompressionError, match=complaint):
        compression.compress(BODY, kind)
    with pytest.raises(CompressionError, match=complaint):
        compression.decompress(BODY, flag(kind), len(BODY))
