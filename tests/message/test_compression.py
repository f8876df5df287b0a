"""Compressing bodies, and decompressing them up to a limit."""

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
    """Return the compression types whose packages are installed."""
    return [kind for kind in CompressionType if kind not in PACKAGES or importlib.util.find_spec(PACKAGES[kind])]


each_kind = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)


def flag(kind: CompressionType) -> int:
    return sysflag.with_compression(0, kind)


@each_kind
@given(body=st.binary(max_size=300))
def test_a_compressed_body_is_decompressed(kind: CompressionType, body: bytes) -> None:
    assert compression.decompress(compression.compress(body, kind), flag(kind), len(body)) == body


@each_kind
def test_a_body_becomes_smaller(kind: CompressionType) -> None:
    assert len(compression.compress(BODY, kind)) < len(BODY) / 10


@pytest.mark.skipif(CompressionType.LZ4 not in kinds(), reason="lz4 is not installed")
def test_lz4_blocks_are_independent() -> None:
    """Java cannot read dependent blocks and drops the message and all others of the same pull."""
    compressed = compression.compress(BODY * 20, CompressionType.LZ4)

    frame_flags = compressed[4]
    assert frame_flags & 0x20


@each_kind
def test_a_body_longer_than_the_limit_is_rejected(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)

    assert compression.decompress(compressed, flag(kind), len(BODY)) == BODY
    with pytest.raises(CompressionError, match=f"{kind.name} body exceeds the limit of {len(BODY) - 1} bytes"):
        compression.decompress(compressed, flag(kind), len(BODY) - 1)


@each_kind
def test_a_truncated_body_is_rejected(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)
    for size in range(len(compressed)):
        with pytest.raises(CompressionError):
            compression.decompress(compressed[:size], flag(kind), len(BODY))


@each_kind
def test_a_changed_byte_raises_only_compression_error(kind: CompressionType) -> None:
    compressed = compression.compress(BODY, kind)
    for at in range(len(compressed)):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(compressed)
            changed[at] ^= change
            try:
                assert len(compression.decompress(bytes(changed), flag(kind), len(BODY))) <= len(BODY)
            except CompressionError:
                continue


def test_compression_type_zero_means_zlib() -> None:
    assert compression.decompress(zlib.compress(BODY), sysflag.COMPRESSED, len(BODY)) == BODY


def test_an_uncompressed_body_is_returned_unchanged() -> None:
    assert compression.decompress(BODY, 0x300, 0) is BODY


@pytest.mark.parametrize("number", range(4, 8))
def test_an_unknown_compression_type_is_rejected(number: int) -> None:
    with pytest.raises(CompressionError, match=f"compression type {number}, expected 0 to 3"):
        compression.decompress(BODY, number << 8 | sysflag.COMPRESSED, len(BODY))


@pytest.mark.parametrize("kind", PACKAGES, ids=lambda kind: kind.name)
def test_a_missing_package_is_named(kind: CompressionType, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", nowhere)

    complaint = rf"{kind.name} bodies need the package {PACKAGES[kind]}: pip install '.*\[compression\]'"
    with pytest.raises(CompressionError, match=complaint):
        compression.compress(BODY, kind)
    with pytest.raises(CompressionError, match=complaint):
        compression.decompress(BODY, flag(kind), len(BODY))
