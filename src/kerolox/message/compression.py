"""Compression of message bodies by producers and decompression by consumers (Compressor)."""

import importlib
import zlib
from typing import Any

from kerolox.message import sysflag
from kerolox.message.errors import CompressionError
from kerolox.message.sysflag import CompressionType
from kerolox.runtime.optional_deps import install_command

LEVEL = 5


def compress(body: bytes, kind: CompressionType = CompressionType.ZLIB, level: int = LEVEL) -> bytes:
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.LZ4:
        # lz4-java has no compression level and cannot decode blocks that depend on the previous one.
        compressed: bytes = _module("lz4.frame", kind).compress(body, block_linked=False)
    else:
        compressed = _module("zstandard", kind).ZstdCompressor(level=level).compress(body)
    return compressed


def decompress(body: bytes, sys_flag: int, size_max: int) -> bytes:
    """Return the decompressed body, or `body` itself if `sys_flag` does not mark it as compressed.

    CompressionError if it is damaged or would be longer than `size_max`; never more than that is decompressed.
    """
    if not sysflag.is_compressed(sys_flag):
        return body
    kind = sysflag.compression_type(sys_flag)
    if kind is None:
        raise CompressionError(f"sysFlag {sys_flag:#x} has compression type {(sys_flag & 0x700) >> 8}, expected 0 to 3")
    if kind is CompressionType.ZLIB:
        restored, is_whole = _from_zlib(body, size_max)
    elif kind is CompressionType.LZ4:
        restored, is_whole = _from_lz4(body, size_max)
    else:
        restored, is_whole = _from_zstd(body, size_max)
    if len(restored) > size_max:
        raise CompressionError(f"{kind.name} body exceeds the limit of {size_max} bytes when decompressed")
    if not is_whole:
        raise CompressionError(f"{kind.name} body is truncated after {len(body)} bytes")
    return restored


def _from_zlib(body: bytes, size_max: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    try:
        restored = stream.decompress(body, size_max + 1)
    except zlib.error as error:
        raise _damaged(CompressionType.ZLIB, error) from error
    return restored, stream.eof


def _from_lz4(body: bytes, size_max: int) -> tuple[bytes, bool]:
    stream = _module("lz4.frame", CompressionType.LZ4).LZ4FrameDecompressor()
    try:
        restored: bytes = stream.decompress(body, size_max + 1)
    except RuntimeError as error:
        raise _damaged(CompressionType.LZ4, error) from error
    return restored, stream.eof


def _from_zstd(body: bytes, size_max: int) -> tuple[bytes, bool]:
    module = _module("zstandard", CompressionType.ZSTD)
    pieces: list[bytes] = []
    size = 0
    try:
        with module.ZstdDecompressor().stream_reader(body) as reader:
            while size <= size_max and (piece := reader.read(size_max + 1 - size)):
                pieces.append(piece)
                size += len(piece)
        is_whole = _is_whole_zstd(body, module.frame_header_size(body), module.get_frame_parameters(body).has_checksum)
    except module.ZstdError as error:
        raise _damaged(CompressionType.ZSTD, error) from error
    return b"".join(pieces), is_whole


def _is_whole_zstd(body: bytes, at: int, has_checksum: bool) -> bool:
    """Whether the last block is complete: the stream reader does not report a truncated frame."""
    while at + 3 <= len(body):
        header = int.from_bytes(body[at : at + 3], "little")
        # An RLE block (type 1) has one byte of content, whatever its size.
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            return at + 4 * has_checksum <= len(body)
    return False


def _module(name: str, kind: CompressionType) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise CompressionError(
            f"{kind.name} bodies need the package {package}: {install_command('compression')}"
        ) from error


def _damaged(kind: CompressionType, error: Exception) -> CompressionError:
    return CompressionError(f"{kind.name} body is damaged: {error}")
