"""Columns of properties, found in all rows at once where these have the same names in the same order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerolox.message.properties import mark, parse
from kerolox.spark.fields import Bytes, Longs, everywhere, gathered
from kerolox.spark.texts import cut, even, fixed, strings, text

_SEPARATOR: Final = 2
_WORD: Final = 8
# Rows with more properties than that are looked through one property after the other.
_ALIKE_MAX: Final = 32
_EVEN_SIZE_MAX: Final = 1024
_ASCII_END: Final = 128
_STRING: Final = pa.string()


def found(data: pa.Buffer, starts: Longs, ends: Longs, names: Mapping[str, str]) -> dict[str, pa.StringArray]:
    """Returns for each column the property of its name, null where there is none; agrees with `parse`.

    The properties of each row lie between its start and its end.
    """
    count = len(starts)
    if not count or (starts == ends).all():
        return dict.fromkeys(names, pa.nulls(count, _STRING))
    below = _even(data, starts, ends)
    if below is not None:
        return {column: below.column(mark(name)) for column, name in names.items()}
    properties = cut(data, starts, ends)
    octets, bounds = _parts(properties)
    alike = _alike(properties, octets, bounds)
    if alike is not None:
        return {column: alike.column(mark(name)) for column, name in names.items()}
    segments = _segments(octets, bounds)
    kind = _STRING if _is_text(properties, octets, bounds) else pa.binary()
    found = {
        column: _property(properties.buffers()[2], mark(name), segments, bounds, kind) for column, name in names.items()
    }
    return found if kind == _STRING else {column: text(values) for column, values in found.items()}


def property_maps(data: pa.Buffer, starts: Longs, ends: Longs) -> pa.MapArray:
    """Returns all properties of each row as a map."""
    properties = cut(data, starts, ends)
    if len(properties):
        octets, bounds = _parts(properties)
        alike = _alike(properties, octets, bounds)
        if alike is not None:
            return alike.maps()
    counts, names, values = [0], [], []
    for row in properties.to_pylist():
        for name, value in parse(row).items():
            names.append(name)
            values.append(value)
        counts.append(len(names))
    return pa.MapArray.from_arrays(pa.array(counts, pa.int32()), pa.array(names, _STRING), pa.array(values, _STRING))


def _parts(properties: pa.BinaryArray) -> tuple[Bytes, Longs]:
    """Returns the bytes of the rows, and where in them each row begins and ends."""
    _, offsets, data = properties.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(properties) + 1, 4 * properties.offset).astype(np.int64)
    return np.frombuffer(data, np.uint8), bounds


def _is_text(properties: pa.BinaryArray, octets: Bytes, bounds: Longs) -> bool:
    """Returns whether all of them are; then what lies between separators need not be looked at again."""
    if octets[bounds[0] : bounds[-1]].max() < _ASCII_END:
        return True
    try:
        properties.cast(_STRING)
    except pa.ArrowInvalid:
        return False
    return True


class _Even(NamedTuple):
    """Rows in which all but the values is the same, byte for byte: they stand below each other."""

    octets: Bytes
    # Where the value of each name begins and ends in every row.
    values: dict[bytes, tuple[int, int]]

    def column(self, marked: bytes) -> pa.StringArray:
        place = self.values.get(marked)
        return pa.nulls(len(self.octets), _STRING) if place is None else even(self.octets[:, slice(*place)], _STRING)


def _even(data: pa.Buffer, starts: Longs, ends: Longs) -> _Even | None:
    count, size = len(starts), int(ends[0] - starts[0])
    if not 0 < size <= _EVEN_SIZE_MAX or (ends - starts != size).any():
        return None
    octets = gathered(data, size, starts).view(np.uint8).reshape(count, size)
    first = octets[0].tobytes()
    width = first.count(_SEPARATOR)
    if width > _ALIKE_MAX or octets.max() >= _ASCII_END or np.count_nonzero(octets == _SEPARATOR) != width * count:
        return None
    values: dict[bytes, tuple[int, int]] = {}
    # What follows the last value, up to which all has been compared.
    rest = start = 0
    for segment in first.split(b"\2"):
        end = start + len(segment)
        marked = segment[: segment.find(b"\1") + 1]
        value_start = start + len(marked)
        if len(b"\1") < len(marked) < len(segment):
            if octets[:, rest:value_start].tobytes() != first[rest:value_start] * count:
                return None
            values[marked] = value_start, end
            rest = end
        start = end + 1
    return _Even(octets, values) if octets[:, rest:].tobytes() == first[rest:] * count else None


class _Alike(NamedTuple):
    """Rows with the same names in the same order: each as it is marked, and where its values lie, which are not empty.

    No name comes twice.
    """

    data: pa.Buffer
    rows: int
    values: dict[bytes, tuple[Longs, Longs]]

    def column(self, marked: bytes) -> pa.StringArray:
        place = self.values.get(marked)
        return pa.nulls(self.rows, _STRING) if place is None else cut(self.data, *place, kind=_STRING)

    def maps(self) -> pa.MapArray:
        width = len(self.values)
        names = strings([marked[:-1].decode() for marked in self.values] * self.rows)
        starts, ends = (np.stack(places, axis=1).ravel() for places in zip(*self.values.values(), strict=True))
        bounds = np.arange(0, (self.rows + 1) * width, width, dtype=np.int32)
        return pa.MapArray.from_arrays(fixed(bounds, pa.int32()), names, cut(self.data, starts, ends, kind=_STRING))


def _alike(properties: pa.BinaryArray, octets: Bytes, bounds: Longs) -> _Alike | None:
    """Returns where the properties of all rows are if all have those of the first; None if it is not so simple."""
    first = octets[bounds[0] : bounds[1]].tobytes()
    width = first.count(_SEPARATOR)
    if not 0 < width <= _ALIKE_MAX or not _is_text(properties, octets, bounds):
        return None
    count = len(properties)
    separators = np.flatnonzero(octets[bounds[0] : bounds[-1]] == _SEPARATOR) + bounds[0]
    if len(separators) != width * count:
        return None
    by_row = separators.reshape(count, width)
    if (by_row[:, 0] < bounds[:-1]).any() or (by_row[:, -1] >= bounds[1:]).any():
        return None
    values: dict[bytes, tuple[Longs, Longs]] = {}
    start: Longs = bounds[:-1]
    for segment, end in zip(first.split(b"\2"), [*by_row.T, bounds[1:]], strict=True):
        if not segment:
            if (start != end).any():
                return None
        else:
            marked = segment[: segment.find(b"\1") + 1]
            value_start = start + len(marked)
            if len(marked) < len(b"n\1") or marked in values or (value_start >= end).any():
                return None
            if everywhere(octets, len(marked))[start].tobytes() != marked * count:
                return None
            values[marked] = value_start, end
        start = end + 1
    return _Alike(properties.buffers()[2], count, values) if values else None


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
    beginnings = everywhere(octets, _WORD)[starts].view(np.uint64)
    return _Segments(octets, starts, beginnings, separators, before, rows)


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
    if len(matches) == count and is_one.all() and (rows == np.arange(count)).all():
        return cut(data, value_starts, value_ends, kind=kind)
    rows = rows[is_one]
    starts, ends = bounds[:-1].copy(), bounds[:-1].copy()
    is_missing = np.ones(count, np.bool_)
    # Of those that a row has twice the last is written last, and stays.
    starts[rows] = value_starts[is_one]
    ends[rows] = value_ends[is_one]
    is_missing[rows] = False
    return cut(data, starts, ends, is_missing, kind=kind)
