"""Bodies made smaller by producers, and restored by consumers; a broker only carries them."""

import importlib
import zlib
from typing import Any

from kerolox.message import sysflag
from kerolox.message.errors import CompressionError
from kerolox.message.sysflag import CompressionType
from kerolox.runtime.extras import installing

LEVEL = 5


def compress(body: bytes, kind: CompressionType = CompressionType.ZLIB, level: int = LEVEL) -> bytes:
    if kind is CompressionType.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionType.LZ4:
        # Java's knows no level, and reads no block that leans on the one before it.
        compressed: bytes = _module("lz4.frame", kind).compress(body, block_linked=False)
    else:
        compressed = _module("zstandard", kind).ZstdCompressor(level=level).compress(body)
    return compressed


def decompress(body: bytes, sys_flag: int, size_max: int) -> bytes:
    """Returns the body as it was before; the body itself if the flag says that nobody compressed it.

    CompressionError if it is damaged, or longer than `size_max`, of which no more than that is ever unpacked.
    """
    if not sysflag.is_compressed(sys_flag):
        return body
    kind = sysflag.compression_type(sys_flag)
    if kind is None:
        raise CompressionError(
            f"sysFlag {sys_flag:#x} has compression type {(sys_flag & 0x700) >> 8}, known are 0 to 3"
        )
    if kind is CompressionType.ZLIB:
        restored, is_whole = _from_zlib(body, size_max)
    elif kind is CompressionType.LZ4:
        restored, is_whole = _from_lz4(body, size_max)
    else:
        restored, is_whole = _from_zstd(body, size_max)
    if len(restored) > size_max:
        raise CompressionError(f"{kind.name} body of more than {size_max} bytes, which is the most allowed")
    if not is_whole:
        raise CompressionError(f"{kind.name} body is cut off after {len(body)} bytes")
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
    """Walks over the blocks to the last one, since the reader gives what there is and does not say if that was all."""
    while at + 3 <= len(body):
        header = int.from_bytes(body[at : at + 3], "little")
        # Of a block that repeats one byte, only that byte is there.
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        if header & 1:
            return at + 4 * has_checksum <= len(body)
    return False


def _module(name: str, kind: CompressionType) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise CompressionError(f"{kind.name} bodies need the package {package}: {installing('compression')}") from error


def _damaged(kind: CompressionType, error: Exception) -> CompressionError:
    return CompressionError(f"{kind.name} body is damaged: {error}")
