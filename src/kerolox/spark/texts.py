"""Columns of variable length, cut out of a buffer without an object for each row."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kerolox.message import hosts
from kerolox.message.properties import mark, parse
from kerolox.spark.fields import Bytes, Heads, Longs, Mask

_HEX_PAIRS: Final = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
# Text of the hosts that were seen; a topic has few producers, and each many messages.
_host_texts: dict[bytes, str] = {}
_HOSTS_MAX: Final = 65_536
_BINARY: Final = pa.binary()
_STRING: Final = pa.string()
_LONG: Final = pa.int64()
_SEPARATOR: Final = 2
_WORD: Final = 8


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
    # The wanted pieces and what lies between them, taken together, are all of the buffer: an array that needs no copy.
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = starts
    bounds[1:-1:2] = ends
    bounds[-1] = ends[-1]
    pieces = pa.Array.from_buffers(kind, 2 * count, [None, pa.py_buffer(bounds), buffer])
    return pieces.take(fixed(_even_numbers(count), _LONG, is_missing))


@functools.lru_cache(maxsize=4)
def _numbers(count: int) -> Longs:
    return np.arange(count)


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
    bounds = np.arange(count + 1, dtype=np.int32) * len(encoded)
    return pa.Array.from_buffers(_STRING, count, [None, pa.py_buffer(bounds), pa.py_buffer(encoded * count)])


def the_same(buffer: bytes, starts: Longs, ends: Longs) -> str | None:
    """Returns the one text that lies between each start and its end; None if they differ, or are none."""
    size = int(ends[0] - starts[0]) if len(starts) else 0
    if not size or (ends - starts != size).any():
        return None
    everywhere = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
    octets = everywhere[starts].view(np.uint8).reshape(len(starts), size)
    if (octets != octets[0]).any():
        return None
    try:
        return str(octets[0].tobytes(), "utf-8")
    except UnicodeDecodeError:
        return None


def text(column: pa.BinaryArray) -> pa.StringArray:
    """Returns bytes as text; where they are none, with the usual sign in place of what is not."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if data is None else data.decode("utf-8", "replace") for data in column.to_pylist()])


def found(properties: pa.BinaryArray, names: Mapping[str, str]) -> dict[str, pa.StringArray]:
    """Returns for each column the property of its name, null where there is none; agrees with `parse`."""
    count = len(properties)
    if not count:
        return dict.fromkeys(names, pa.nulls(0, pa.string()))
    _, offsets_buffer, data = properties.buffers()
    bounds = np.frombuffer(offsets_buffer, np.int32, count + 1, 4 * properties.offset).astype(np.int64)
    if bounds[0] == bounds[-1]:
        return dict.fromkeys(names, pa.nulls(count, pa.string()))
    segments = _segments(np.frombuffer(data, np.uint8), bounds)
    try:
        # What lies between separators of a text is a text, and need not be looked at again.
        properties.cast(pa.string())
        kind = pa.string()
    except pa.ArrowInvalid:
        kind = pa.binary()
    found = {column: _property(data, mark(name), segments, bounds, kind) for column, name in names.items()}
    return found if kind == pa.string() else {column: text(values) for column, values in found.items()}


@dataclass(slots=True)
class _Segments:
    """Properties by where they begin: first the one at the beginning of each row, then those behind a separator."""

    octets: Bytes
    starts: Longs
    # Their first eight bytes, as a number.
    beginnings: npt.NDArray[np.uint64]
    # Where the separators are, one more behind all rows, and how many there are before each row.
    separators: Longs
    before: Longs
    # The row of each separator, the last included.
    rows: Longs


def _segments(data: Bytes, bounds: Longs) -> _Segments:
    # So that eight bytes can be read from wherever one begins.
    octets = np.concatenate((data[: bounds[-1]], np.full(_WORD, 2, np.uint8)))
    first = int(bounds[0])
    separators = np.flatnonzero(octets[first : 1 - _WORD] == _SEPARATOR) + first
    before = np.searchsorted(separators, bounds)
    rows = np.repeat(np.arange(len(bounds)), np.diff(before, append=before[-1] + 1))
    starts = np.concatenate((bounds[:-1], separators[:-1] + 1))
    everywhere = np.ndarray((len(octets) - _WORD + 1,), f"V{_WORD}", octets, strides=(1,))
    return _Segments(octets, starts, everywhere[starts].view(np.uint64), separators, before, rows)


def _property(data: pa.Buffer, marked: bytes, segments: _Segments, bounds: Longs, kind: pa.DataType) -> pa.Array:
    count = len(bounds) - 1
    beginning = marked[:_WORD]
    bits = (1 << 8 * len(beginning)) - 1
    matches = np.flatnonzero(segments.beginnings & np.uint64(bits) == int.from_bytes(beginning, "little"))
    value_starts = segments.starts[matches] + len(marked)
    is_first = matches < count
    behind = np.maximum(matches - count, 0)
    rows = np.where(is_first, matches, segments.rows[behind])
    nexts = np.where(is_first, segments.before[matches * is_first], behind + 1)
    value_ends = np.minimum(segments.separators[nexts], bounds[rows + 1])
    # What has no value is none; and what follows the last separator of a row is the next one.
    is_one = value_starts < value_ends
    for at in range(_WORD, len(marked)):
        is_one &= segments.octets[np.minimum(value_starts - len(marked) + at, len(segments.octets) - 1)] == marked[at]
    if len(matches) == count and is_one.all() and (rows == _numbers(count)).all():
        return cut(data, value_starts, value_ends, kind=kind)
    rows = rows[is_one]
    starts, ends = bounds[:-1].copy(), bounds[:-1].copy()
    is_missing = np.ones(count, np.bool_)
    # Of those that a row has twice the last is written last, and stays.
    starts[rows] = value_starts[is_one]
    ends[rows] = value_ends[is_one]
    is_missing[rows] = False
    return cut(data, starts, ends, is_missing, kind=kind)


def property_maps(properties: pa.BinaryArray) -> pa.MapArray:
    """Returns all properties of each row as a map."""
    counts, names, values = [0], [], []
    for data in properties.to_pylist():
        for name, value in parse(data).items():
            names.append(name)
            values.append(value)
        counts.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(counts, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string())
    )


def offset_ids(heads: Heads) -> pa.StringArray:
    """Returns the ids that say where each message lies."""
    store_hosts = heads["store_host"]
    host_size = store_hosts.dtype.itemsize
    size = host_size + 8
    data = np.empty((len(heads), size), np.uint8)
    data[:, :host_size] = np.ascontiguousarray(store_hosts).view(np.uint8).reshape(len(heads), host_size)
    offsets = np.ascontiguousarray(heads["physical_offset"])
    data[:, host_size:] = offsets.view(np.uint8).reshape(len(heads), 8)
    bounds = np.arange(0, (len(heads) + 1) * size * 2, size * 2, dtype=np.int32)
    return pa.StringArray.from_buffers(len(heads), pa.py_buffer(bounds), pa.py_buffer(_HEX_PAIRS[data]))


def host_texts(packed: Heads) -> pa.StringArray:
    """Returns addresses as people write them."""
    size = packed.dtype.itemsize
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size), len(packed), [None, pa.py_buffer(np.ascontiguousarray(packed))]
    )
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) == 1:
        return repeated(_host_text(encoded.dictionary[0].as_py()), len(packed))
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
