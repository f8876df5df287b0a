"""Columns of variable length, copied from a buffer without an object per row."""

import functools
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import hosts
from kerolox.spark.arrow.record_heads import Bytes, Heads, Longs, Mask, constant_stride, gather, strided

_HEX_PAIRS: Final = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
# Cache of formatted hosts: a topic has few producers, and each of them many messages.
_host_texts: dict[bytes, str] = {}
_HOSTS_MAX: Final = 65_536
# Average run length of equal hosts below which dictionary encoding is used instead of runs.
_HOST_RUN_LENGTH_MIN: Final = 16
_BINARY: Final = pa.binary()
_STRING: Final = pa.string()
_LONG: Final = pa.int64()
# Pieces of equal size up to this one are gathered by numpy. Larger ones are copied to a buffer of Arrow's pool, which
# reuses memory: with one strided copy if they are evenly spaced, else by Arrow's `take`.
_GATHERED_SIZE_MAX: Final = 64


def slices(
    buffer: pa.Buffer,
    starts: Longs,
    ends: Longs,
    is_missing: Mask | None = None,
    *,
    kind: pa.DataType = _BINARY,
) -> pa.Array:
    """Return the bytes from each start to its end, null where `is_missing`; starts and ends must be ascending."""
    count = len(starts)
    if not count:
        return pa.nulls(0, kind)
    size = int(ends[0] - starts[0])
    if size > 0 and is_missing is None and (ends - starts == size).all():
        if size <= _GATHERED_SIZE_MAX:
            return equal_pieces(gather(buffer, size, starts).view(np.uint8).reshape(count, size), kind)
        stride = constant_stride(starts)
        if stride is not None:
            data = pa.allocate_buffer(count * size)
            np.frombuffer(data, f"V{size}")[...] = strided(buffer, int(starts[0]), stride, count, size)
            return pa.Array.from_buffers(kind, count, [None, _equal_bounds(count, size), data])
    # The pieces and the gaps between them form an array over the buffer without a copy; `take` then picks the pieces.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1:-1:2] = ends
    bounds[-1] = ends[-1]
    pieces = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(bounds), buffer])
    return pieces.take(number_array(_piece_indexes(count), _LONG, is_missing))


def equal_pieces(rows: Bytes, kind: pa.DataType) -> pa.Array:
    """Return pieces of equal size as a column."""
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(kind, len(rows), [None, _equal_bounds(*rows.shape), data])


@functools.lru_cache(maxsize=16)
def _equal_bounds(count: int, size: int) -> pa.Buffer:
    """Return the offsets buffer of contiguous pieces of equal size."""
    return pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32))


@functools.lru_cache(maxsize=4)
def _piece_indexes(count: int) -> Longs:
    return np.arange(0, 2 * count, 2)


def number_array(values: Longs | npt.NDArray[np.int32], kind: pa.DataType, is_missing: Mask | None = None) -> pa.Array:
    """Return numbers as a column, null where `is_missing`.

    `pa.array` would import pandas, which takes half a second in every Python worker.
    """
    present = None if is_missing is None else pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(np.ascontiguousarray(values))])


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """Return a column of strings, without importing pandas."""
    encoded = [b"" if value is None else value.encode() for value in values]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    is_missing = np.array([value is None for value in values], np.bool_)
    present = pa.py_buffer(np.packbits(~is_missing, bitorder="little")) if is_missing.any() else None
    return pa.Array.from_buffers(
        _STRING, len(encoded), [present, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    )


def repeated(value: str, count: int) -> pa.StringArray:
    """Return a column with the same string in each row."""
    encoded = value.encode()
    if not encoded:
        return strings([value] * count)
    return pa.Array.from_buffers(
        _STRING, count, [None, _equal_bounds(count, len(encoded)), pa.py_buffer(encoded * count)]
    )


def decode_text(column: pa.BinaryArray) -> pa.StringArray:
    """Decode UTF-8; invalid bytes become U+FFFD."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if data is None else data.decode("utf-8", "replace") for data in column.to_pylist()])


def offset_message_ids(heads: Heads) -> pa.StringArray:
    """Return the offsetMsgId of each message: store host and physical offset in hexadecimal digits."""
    store_hosts = heads["store_host"]
    count, host_size = len(heads), store_hosts.dtype.itemsize
    size = host_size + 8
    pairs = np.empty((count, size), np.uint16)
    packed = store_hosts.tobytes()
    # Messages of one broker share the host, which is then broadcast to all rows.
    known = packed[:host_size] if packed == packed[:host_size] * count else packed
    pairs[:, :host_size] = _HEX_PAIRS.take(np.frombuffer(known, np.uint8)).reshape(-1, host_size)
    offsets = np.frombuffer(heads["physical_offset"].tobytes(), np.uint8)
    pairs[:, host_size:] = _HEX_PAIRS.take(offsets).reshape(count, 8)
    return pa.StringArray.from_buffers(count, _equal_bounds(count, 2 * size), pa.py_buffer(pairs))


def host_texts(packed: Heads) -> pa.StringArray:
    """Format packed hosts as `address:port`."""
    count, size = len(packed), packed.dtype.itemsize
    data = packed.tobytes()
    if data == data[:size] * count:
        return repeated(_host_text(data[:size]), count)
    words = np.frombuffer(data, np.uint32)
    width = size // words.itemsize
    # Producers send in batches, so equal hosts come in runs.
    changes = np.unique(np.flatnonzero(words[width:] != words[:-width]) // width) + 1
    if len(changes) * _HOST_RUN_LENGTH_MIN < count:
        firsts = [0, *changes.tolist()]
        numbers = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=count))
        found = strings([_host_text(data[first * size : (first + 1) * size]) for first in firsts])
        return found.take(number_array(numbers, _LONG))
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), count, [None, pa.py_buffer(data)])
    encoded = column.dictionary_encode()
    return strings([_host_text(host) for host in encoded.dictionary.to_pylist()]).take(encoded.indices)


def _host_text(host: bytes) -> str:
    known = _host_texts.get(host)
    if known is None:
        if len(_host_texts) >= _HOSTS_MAX:
            _host_texts.clear()
        known = _host_texts[host] = hosts.to_text(host)
    return known


def coalesce(column: pa.StringArray, fallback: pa.StringArray) -> pa.StringArray:
    return pc.coalesce(column, fallback)


def is_one_of(column: pa.StringArray, wanted: Iterable[str]) -> Mask:
    """Return which rows have one of these strings; null matches none."""
    found = pc.is_in(column, strings(sorted(wanted))).cast(pa.uint8())
    mask: Mask = np.frombuffer(found.buffers()[1], np.uint8, len(found), found.offset).astype(np.bool_)
    return mask
