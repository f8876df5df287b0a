"""Columns of variable length, cut out of a buffer without an object for each row."""

import functools
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import hosts
from kerolox.spark.fields import Bytes, Heads, Longs, Mask, even_stride, gathered, spaced

_HEX_PAIRS: Final = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
# Text of the hosts that were seen; a topic has few producers, and each many messages.
_host_texts: dict[bytes, str] = {}
_HOSTS_MAX: Final = 65_536
# Where fewer follow each other, on average, equal hosts are found wherever they are.
_ROWS_OF_HOST_MIN: Final = 16
_BINARY: Final = pa.binary()
_STRING: Final = pa.string()
_LONG: Final = pa.int64()
# Pieces of one size up to this one are gathered; larger ones are copied to memory of Arrow's, which it uses again: at
# once if they are evenly spaced, and else by Arrow.
_GATHERED_SIZE_MAX: Final = 64


def cut(
    buffer: pa.Buffer,
    starts: Longs,
    ends: Longs,
    is_missing: Mask | None = None,
    *,
    kind: pa.DataType = _BINARY,
) -> pa.Array:
    """Returns what lies between each start and its end, null where it is missing; they must be in rising order."""
    count = len(starts)
    if not count:
        return pa.nulls(0, kind)
    size = int(ends[0] - starts[0])
    if size > 0 and is_missing is None and (ends - starts == size).all():
        if size <= _GATHERED_SIZE_MAX:
            return even(gathered(buffer, size, starts).view(np.uint8).reshape(count, size), kind)
        stride = even_stride(starts)
        if stride is not None:
            data = pa.allocate_buffer(count * size)
            np.frombuffer(data, f"V{size}")[...] = spaced(buffer, int(starts[0]), stride, count, size)
            return pa.Array.from_buffers(kind, count, [None, _even_bounds(count, size), data])
    # The wanted pieces and what lies between them, taken together, are all of the buffer: an array that needs no copy.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1:-1:2] = ends
    bounds[-1] = ends[-1]
    pieces = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(bounds), buffer])
    return pieces.take(fixed(_even_numbers(count), _LONG, is_missing))


def even(rows: Bytes, kind: pa.DataType) -> pa.Array:
    """Returns pieces of one size as a column."""
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(kind, len(rows), [None, _even_bounds(*rows.shape), data])


@functools.lru_cache(maxsize=16)
def _even_bounds(count: int, size: int) -> pa.Buffer:
    """Returns where pieces of one size begin and end that lie one after the other."""
    return pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32))


@functools.lru_cache(maxsize=4)
def _even_numbers(count: int) -> Longs:
    return np.arange(0, 2 * count, 2)


def fixed(values: Longs | npt.NDArray[np.int32], kind: pa.DataType, is_missing: Mask | None = None) -> pa.Array:
    """Returns numbers as a column, null where they are missing.

    `pa.array` would do the same, and import pandas first: half a second for each process that Spark begins.
    """
    present = None if is_missing is None else pa.py_buffer(np.packbits(~is_missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(np.ascontiguousarray(values))])


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """Returns a column of texts; without pandas, too."""
    encoded = [b"" if value is None else value.encode() for value in values]
    bounds = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    is_missing = np.array([value is None for value in values], np.bool_)
    present = pa.py_buffer(np.packbits(~is_missing, bitorder="little")) if is_missing.any() else None
    return pa.Array.from_buffers(
        _STRING, len(encoded), [present, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    )


def repeated(value: str, count: int) -> pa.StringArray:
    """Returns a column with the same text in each row."""
    encoded = value.encode()
    if not encoded:
        return strings([value] * count)
    return pa.Array.from_buffers(
        _STRING, count, [None, _even_bounds(count, len(encoded)), pa.py_buffer(encoded * count)]
    )


def text(column: pa.BinaryArray) -> pa.StringArray:
    """Returns bytes as text; where they are none, with the usual sign in place of what is not."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if data is None else data.decode("utf-8", "replace") for data in column.to_pylist()])


def offset_ids(heads: Heads) -> pa.StringArray:
    """Returns the ids that say where each message lies."""
    store_hosts = heads["store_host"]
    count, host_size = len(heads), store_hosts.dtype.itemsize
    size = host_size + 8
    pairs = np.empty((count, size), np.uint16)
    packed = store_hosts.tobytes()
    # Broadcast to all rows where they have come from one broker.
    known = packed[:host_size] if packed == packed[:host_size] * count else packed
    pairs[:, :host_size] = _HEX_PAIRS.take(np.frombuffer(known, np.uint8)).reshape(-1, host_size)
    offsets = np.frombuffer(heads["physical_offset"].tobytes(), np.uint8)
    pairs[:, host_size:] = _HEX_PAIRS.take(offsets).reshape(count, 8)
    return pa.StringArray.from_buffers(count, _even_bounds(count, 2 * size), pa.py_buffer(pairs))


def host_texts(packed: Heads) -> pa.StringArray:
    """Returns addresses as people write them."""
    count, size = len(packed), packed.dtype.itemsize
    data = packed.tobytes()
    if data == data[:size] * count:
        return repeated(_host_text(data[:size]), count)
    words = np.frombuffer(data, np.uint32)
    width = size // words.itemsize
    # Producers that send in batches follow each other, and each has many messages.
    changes = np.unique(np.flatnonzero(words[width:] != words[:-width]) // width) + 1
    if len(changes) * _ROWS_OF_HOST_MIN < count:
        firsts = [0, *changes.tolist()]
        numbers = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=count))
        found = strings([_host_text(data[first * size : (first + 1) * size]) for first in firsts])
        return found.take(fixed(numbers, _LONG))
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


def first_of(column: pa.StringArray, otherwise: pa.StringArray) -> pa.StringArray:
    return pc.coalesce(column, otherwise)


def is_one_of(column: pa.StringArray, wanted: Iterable[str]) -> Mask:
    """Returns which rows have one of these texts; a row without any has none."""
    found = pc.is_in(column, strings(sorted(wanted))).cast(pa.uint8())
    mask: Mask = np.frombuffer(found.buffers()[1], np.uint8, len(found), found.offset).astype(np.bool_)
    return mask
