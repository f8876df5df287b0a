"""Message properties as columns; vectorised if all rows have the same names in the same order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerolox.message.properties import mark, parse
from kerolox.spark.arrow.record_heads import Bytes, Longs, byte_windows, gather
from kerolox.spark.arrow.varlen import decode_text, equal_pieces, number_array, slices, strings

_SEPARATOR: Final = 2
_WORD: Final = 8
# The fast paths handle at most this many properties per row.
_PROPERTY_COUNT_MAX: Final = 32
_FIXED_LAYOUT_SIZE_MAX: Final = 1024
_ASCII_END: Final = 128
_STRING: Final = pa.string()


def property_columns(
    data: pa.Buffer, starts: Longs, ends: Longs, names: Mapping[str, str]
) -> dict[str, pa.StringArray]:
    """Return a column for each wanted property, null where a row lacks it; equals the result of `parse`.

    `names` maps columns to property names. The properties of a row are the bytes from its start to its end.
    """
    count = len(starts)
    if not count or (starts == ends).all():
        return dict.fromkeys(names, pa.nulls(count, _STRING))
    fixed_layout = _fixed_layout(data, starts, ends)
    if fixed_layout is not None:
        return {column: fixed_layout.column(mark(name)) for column, name in names.items()}
    properties = slices(data, starts, ends)
    octets, bounds = _parts(properties)
    same = _same_names(properties, octets, bounds)
    if same is not None:
        return {column: same.column(mark(name)) for column, name in names.items()}
    segments = _segments(octets, bounds)
    kind = _STRING if _is_text(properties, octets, bounds) else pa.binary()
    found = {
        column: _property(properties.buffers()[2], mark(name), segments, bounds, kind) for column, name in names.items()
    }
    return found if kind == _STRING else {column: decode_text(values) for column, values in found.items()}


def property_maps(data: pa.Buffer, starts: Longs, ends: Longs) -> pa.MapArray:
    """Return a column with all properties of each row as a map."""
    properties = slices(data, starts, ends)
    if len(properties):
        octets, bounds = _parts(properties)
        same = _same_names(properties, octets, bounds)
        if same is not None:
            return same.maps()
    counts, names, values = [0], [], []
    for row in properties.to_pylist():
        for name, value in parse(row).items():
            names.append(name)
            values.append(value)
        counts.append(len(names))
    return pa.MapArray.from_arrays(pa.array(counts, pa.int32()), pa.array(names, _STRING), pa.array(values, _STRING))


def _parts(properties: pa.BinaryArray) -> tuple[Bytes, Longs]:
    """Return the bytes of the rows, and the bounds of the rows in them."""
    _, offsets, data = properties.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(properties) + 1, 4 * properties.offset).astype(np.int64)
    return np.frombuffer(data, np.uint8), bounds


def _is_text(properties: pa.BinaryArray, octets: Bytes, bounds: Longs) -> bool:
    """Whether all rows are valid UTF-8; then their values are, too."""
    if octets[bounds[0] : bounds[-1]].max() < _ASCII_END:
        return True
    try:
        properties.cast(_STRING)
    except pa.ArrowInvalid:
        return False
    return True


class _FixedLayout(NamedTuple):
    """Rows that are equal except for the values, which have the same positions in every row."""

    octets: Bytes
    # Start and end of the value within the row, by the name with its separator.
    values: dict[bytes, tuple[int, int]]

    def column(self, marked: bytes) -> pa.StringArray:
        bounds = self.values.get(marked)
        return (
            pa.nulls(len(self.octets), _STRING)
            if bounds is None
            else equal_pieces(self.octets[:, slice(*bounds)], _STRING)
        )


def _fixed_layout(data: pa.Buffer, starts: Longs, ends: Longs) -> _FixedLayout | None:
    count, size = len(starts), int(ends[0] - starts[0])
    if not 0 < size <= _FIXED_LAYOUT_SIZE_MAX or (ends - starts != size).any():
        return None
    octets = gather(data, size, starts).view(np.uint8).reshape(count, size)
    first = octets[0].tobytes()
    width = first.count(_SEPARATOR)
    if (
        width > _PROPERTY_COUNT_MAX
        or octets.max() >= _ASCII_END
        or np.count_nonzero(octets == _SEPARATOR) != width * count
    ):
        return None
    values: dict[bytes, tuple[int, int]] = {}
    # End of the last value: everything before it has been compared.
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
    return _FixedLayout(octets, values) if octets[:, rest:].tobytes() == first[rest:] * count else None


class _SameNames(NamedTuple):
    """Rows with the same names in the same order, no name twice and no empty value.

    `values` has starts and ends of the values, by the name with its separator.
    """

    data: pa.Buffer
    rows: int
    values: dict[bytes, tuple[Longs, Longs]]

    def column(self, marked: bytes) -> pa.StringArray:
        bounds = self.values.get(marked)
        return pa.nulls(self.rows, _STRING) if bounds is None else slices(self.data, *bounds, kind=_STRING)

    def maps(self) -> pa.MapArray:
        width = len(self.values)
        names = strings([marked[:-1].decode() for marked in self.values] * self.rows)
        starts, ends = (np.stack(places, axis=1).ravel() for places in zip(*self.values.values(), strict=True))
        bounds = np.arange(0, (self.rows + 1) * width, width, dtype=np.int32)
        return pa.MapArray.from_arrays(
            number_array(bounds, pa.int32()), names, slices(self.data, starts, ends, kind=_STRING)
        )


def _same_names(properties: pa.BinaryArray, octets: Bytes, bounds: Longs) -> _SameNames | None:
    """Return the positions of all values if every row has the names of the first row, else None."""
    first = octets[bounds[0] : bounds[1]].tobytes()
    width = first.count(_SEPARATOR)
    if not 0 < width <= _PROPERTY_COUNT_MAX or not _is_text(properties, octets, bounds):
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
            if byte_windows(octets, len(marked))[start].tobytes() != marked * count:
                return None
            values[marked] = value_start, end
        start = end + 1
    return _SameNames(properties.buffers()[2], count, values) if values else None


@dataclass(slots=True)
class _Segments:
    """All properties of all rows, by start: first the first one of each row, then those after a separator."""

    octets: Bytes
    starts: Longs
    # Their first eight bytes, as a number.
    prefixes: npt.NDArray[np.uint64]
    # The positions of the separators, with one more after all rows, and their number before each row.
    separators: Longs
    before: Longs
    # The row of each separator, the last included.
    rows: Longs


def _segments(data: Bytes, bounds: Longs) -> _Segments:
    # Padded, so that eight bytes can be read from every start.
    octets = np.concatenate((data[: bounds[-1]], np.full(_WORD, 2, np.uint8)))
    first = int(bounds[0])
    separators = np.flatnonzero(octets[first : 1 - _WORD] == _SEPARATOR) + first
    before = np.searchsorted(separators, bounds)
    rows = np.repeat(np.arange(len(bounds)), np.diff(before, append=before[-1] + 1))
    starts = np.concatenate((bounds[:-1], separators[:-1] + 1))
    prefixes = byte_windows(octets, _WORD)[starts].view(np.uint64)
    return _Segments(octets, starts, prefixes, separators, before, rows)


def _property(data: pa.Buffer, marked: bytes, segments: _Segments, bounds: Longs, kind: pa.DataType) -> pa.Array:
    count = len(bounds) - 1
    prefix = marked[:_WORD]
    bits = (1 << 8 * len(prefix)) - 1
    matches = np.flatnonzero(segments.prefixes & np.uint64(bits) == int.from_bytes(prefix, "little"))
    value_starts = segments.starts[matches] + len(marked)
    is_first = matches < count
    behind = np.maximum(matches - count, 0)
    rows = np.where(is_first, matches, segments.rows[behind])
    nexts = np.where(is_first, segments.before[matches * is_first], behind + 1)
    value_ends = np.minimum(segments.separators[nexts], bounds[rows + 1])
    # An empty value counts as missing; so does a match after the last separator of a row, which is in the next row.
    is_one = value_starts < value_ends
    for at in range(_WORD, len(marked)):
        is_one &= segments.octets[np.minimum(value_starts - len(marked) + at, len(segments.octets) - 1)] == marked[at]
    if len(matches) == count and is_one.all() and (rows == np.arange(count)).all():
        return slices(data, value_starts, value_ends, kind=kind)
    rows = rows[is_one]
    starts, ends = bounds[:-1].copy(), bounds[:-1].copy()
    is_missing = np.ones(count, np.bool_)
    # If a row has a property twice, the last one wins.
    starts[rows] = value_starts[is_one]
    ends[rows] = value_ends[is_one]
    is_missing[rows] = False
    return slices(data, starts, ends, is_missing, kind=kind)
