"""Builds the wanted Arrow columns from the records of one buffer."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kerolox.message import property_names
from kerolox.message.errors import RecordError
from kerolox.spark.arrow import bodies, properties, varlen
from kerolox.spark.arrow.record_heads import (
    Bytes,
    Longs,
    Mask,
    RecordHeads,
    Records,
    host_layouts,
    low_flags,
    read_heads,
)
from kerolox.spark.schema import BODY, DAMAGE, PROPERTIES, WantedColumns

_FOREVER: Final = 2**63 - 1
# The batch size that costs Spark the least; with far smaller or larger batches a row costs twice as much.
BYTES_MAX: Final = 8 * 1024 * 1024


class Origin(NamedTuple):
    """The broker that records come from, and the queue offsets between which they are wanted."""

    broker_name: str | None = None
    start: int = 0
    end: int = _FOREVER
    # Index of the task's range that they belong to, for `Block.counts`.
    number: int = 0


@dataclass(frozen=True)
class RecordFilter:
    """A filter on records; an empty set matches all."""

    # Needed because brokers compare only hashes of tags.
    tags: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    # Store times, from `start_millis` to before `end_millis`.
    start_millis: int = 0
    end_millis: int = _FOREVER


ANY_ORIGIN: Final = Origin()
NO_FILTER: Final = RecordFilter()


@dataclass(slots=True)
class Block:
    """Whole records in a buffer: start, end and origin of each; `origin_numbers` are indexes into `origins`."""

    buffer: Records
    starts: Longs
    ends: Longs
    origins: list[Origin]
    origin_numbers: Longs
    # Their heads, if already decoded; then all hosts have the same length.
    heads: RecordHeads | None = None
    # Incremented by the number of messages within the offsets of each origin, by `Origin.number`.
    counts: Counter[int] | None = None


def to_batches(
    block: Block, wanted: WantedColumns, only: RecordFilter = NO_FILTER, bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted messages in the order of the buffer; RecordError if a record is invalid.

    Yields one batch, perhaps an empty one, unless there are compressed bodies or inner batches: then each batch has
    at most `bytes_max` plus one message after decompression.
    """
    flags = low_flags(block.buffer, block.starts)
    if not bodies.are_inner_batches(flags).any():
        yield from _batches(block, flags, wanted, only, bytes_max)
        return
    for starts, ends, buffer, numbers in bodies.split_inner_batches(block.buffer, block.starts, block.ends, bytes_max):
        part = Block(buffer, starts, ends, block.origins, block.origin_numbers[numbers], counts=block.counts)
        yield from _batches(part, low_flags(buffer, starts), wanted, only, bytes_max)


def _batches(
    block: Block, flags: Bytes, wanted: WantedColumns, only: RecordFilter, bytes_max: int
) -> Iterator[pa.RecordBatch]:
    builders = _builders(block, flags, wanted, only)
    if BODY not in wanted or not any(part.has_compressed for part in builders):
        yield _merged([part.batch() for part in builders], [part.starts for part in builders], wanted)
        return
    # Decompress in the order of the buffer until there is enough for a batch.
    owners = np.repeat(np.arange(len(builders)), [len(part.starts) for part in builders])
    decompressors = [part.decompressor() for part in builders]
    counts, size = [0] * len(builders), 0
    for owner in owners[np.argsort(np.concatenate([part.starts for part in builders]), kind="stable")].tolist():
        size += decompressors[owner].next()
        counts[owner] += 1
        if size >= bytes_max:
            yield _decompressed_batch(builders, decompressors, counts, wanted)
            counts, size = [0] * len(builders), 0
    if any(counts):
        yield _decompressed_batch(builders, decompressors, counts, wanted)


def _builders(block: Block, flags: Bytes, wanted: WantedColumns, only: RecordFilter) -> "list[_ColumnBuilder]":
    """Return one builder for each host layout that occurs."""
    if block.heads is not None:
        return [_ColumnBuilder(block, wanted, only, block.heads, block.origin_numbers)]
    layouts = host_layouts(flags)
    if not (layouts != layouts[0]).any():
        records = read_heads(block.buffer, block.starts, block.ends, int(layouts[0]))
        return [_ColumnBuilder(block, wanted, only, records, block.origin_numbers)]
    found = []
    for layout in np.unique(layouts):
        chosen = np.flatnonzero(layouts == layout)
        records = read_heads(block.buffer, block.starts[chosen], block.ends[chosen], int(layout))
        found.append(_ColumnBuilder(block, wanted, only, records, block.origin_numbers[chosen]))
    return found


def _decompressed_batch(
    builders: "list[_ColumnBuilder]",
    decompressors: list[bodies.BodyDecompressor],
    counts: list[int],
    wanted: WantedColumns,
) -> pa.RecordBatch:
    """Remove the first `count` rows from each builder, and return them as a batch with decompressed bodies."""
    parts = [
        part.take_first(count, decompressor.take())
        for part, decompressor, count in zip(builders, decompressors, counts, strict=True)
    ]
    return _merged([part.batch() for part in parts], [part.starts for part in parts], wanted)


def _merged(parts: list[pa.RecordBatch], starts: list[Longs], wanted: WantedColumns) -> pa.RecordBatch:
    """Return the rows of all parts in the order of the buffer."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(starts), kind="stable")
    arrays = [
        pa.concat_arrays(columns).take(varlen.number_array(order, pa.int64())) for columns in zip(*parts, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.arrow)


class _ColumnBuilder:
    """Builds columns from records with the same host layout. Each column is a method; shared results are cached."""

    def __init__(
        self, block: Block, wanted: WantedColumns, only: RecordFilter, records: RecordHeads, origin_numbers: Longs
    ) -> None:
        self._buffer = block.buffer
        self._data = pa.py_buffer(block.buffer)
        self._origins = block.origins
        self._wanted = wanted
        self._records = records
        self._origin_numbers = origin_numbers
        self._properties_found: dict[str, pa.StringArray] = {}
        self._offset_ids: pa.StringArray | None = None
        self._decompressed: bodies.DecompressedBodies | None = None
        self._keep(self._are_wanted(only))
        if block.counts is not None:
            self._count(block.counts)
        if only.topics and self._topic() not in only.topics:
            self._keep(varlen.is_one_of(self._topics(), only.topics))
        if only.tags:
            self._keep(varlen.is_one_of(self._property("tags"), only.tags))

    @property
    def has_compressed(self) -> bool:
        return bool(bodies.are_compressed(self._records).any())

    def decompressor(self) -> bodies.BodyDecompressor:
        return bodies.BodyDecompressor(self._buffer, self._records)

    def take_first(self, count: int, decompressed: bodies.DecompressedBodies) -> "_ColumnBuilder":
        """Remove and return the first rows, with these bodies."""
        first = copy(self)
        first._select(slice(count))
        first._decompressed = decompressed
        self._select(slice(count, None))
        return first

    @property
    def starts(self) -> Longs:
        """The starts of the remaining records."""
        return self._records.starts

    def batch(self) -> pa.RecordBatch:
        count = len(self._records)
        if not count:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, field.type) for field in self._wanted.arrow], schema=self._wanted.arrow
            )
        arrays = [_COLUMNS[name](self) for name in self._wanted.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._wanted.arrow)

    def _are_wanted(self, only: RecordFilter) -> Mask:
        offsets = self._records.heads["queue_offset"]
        if len(self._origins) == 1:
            _, start, end, _ = self._origins[0]
            mask = (offsets >= start) & (offsets < end)
        else:
            starts = np.array([origin.start for origin in self._origins])[self._origin_numbers]
            ends = np.array([origin.end for origin in self._origins])[self._origin_numbers]
            mask = (offsets >= starts) & (offsets < ends)
        if only.start_millis > 0 or only.end_millis < _FOREVER:
            times = self._records.heads["store_timestamp"]
            mask &= (times >= only.start_millis) & (times < only.end_millis)
        return mask

    def _count(self, counts: Counter[int]) -> None:
        """Add the number of remaining records of each origin."""
        if len(self._origins) == 1:
            counts[self._origins[0].number] += len(self._records)
            return
        found = np.bincount(self._origin_numbers, minlength=len(self._origins))
        for origin, count in zip(self._origins, found.tolist(), strict=True):
            counts[origin.number] += count

    def _keep(self, mask: Mask) -> None:
        if not mask.all():
            self._select(mask)

    def _select(self, rows: Mask | slice) -> None:
        self._records = self._records.select(rows)
        self._origin_numbers = self._origin_numbers[rows]
        # The cached columns had other rows.
        self._properties_found = {}
        self._offset_ids = None

    def _number(self, field: str, kind: type[np.signedinteger]) -> pa.Array:
        return varlen.number_array(self._records.heads[field].astype(kind), _NUMBERS[kind])

    def _time(self, field: str) -> pa.Array:
        millis = self._records.heads[field].astype(np.int64)
        if millis.min() < _MILLIS_MIN or millis.max() > _MILLIS_MAX:
            # Spark has only years 1 to 9999; other times come from a wrong clock.
            millis = np.clip(millis, _MILLIS_MIN, _MILLIS_MAX)
        millis *= 1000
        return varlen.number_array(millis, _TIMESTAMP)

    def _topic(self) -> str | None:
        """Return the topic if all records are known to have the same one, else None."""
        topic = self._records.topic
        try:
            return None if topic is None else str(topic, "utf-8")
        except UnicodeDecodeError:
            return None

    def _topics(self) -> pa.StringArray:
        records = self._records
        topic = self._topic()
        if topic is not None:
            return varlen.repeated(topic, len(records))
        return varlen.decode_text(varlen.slices(self._data, records.topic_starts, records.topic_ends))

    def _broker_names(self) -> pa.StringArray:
        if len(self._origins) == 1 and (name := self._origins[0].broker_name) is not None:
            return varlen.repeated(name, len(self._records))
        broker_names = varlen.strings([origin.broker_name for origin in self._origins])
        return broker_names.take(varlen.number_array(self._origin_numbers, pa.int64()))

    def _message_ids(self) -> pa.StringArray:
        found = self._property("msgId")
        return varlen.coalesce(found, self._offset_message_ids()) if found.null_count else found

    def _offset_message_ids(self) -> pa.StringArray:
        if self._offset_ids is None:
            self._offset_ids = varlen.offset_message_ids(self._records.heads)
        return self._offset_ids

    def _property(self, column: str) -> pa.StringArray:
        if column not in self._properties_found:
            asked = {name: key for name, key in _PROPERTIES.items() if name in self._wanted.names or name == column}
            records = self._records
            self._properties_found = properties.property_columns(
                self._data, records.properties_starts, records.ends, asked
            )
        return self._properties_found[column]

    def _properties(self) -> pa.MapArray:
        return properties.property_maps(self._data, self._records.properties_starts, self._records.ends)

    def _bodies(self) -> pa.BinaryArray:
        records = self._records
        stored = varlen.slices(self._data, records.body_starts, records.body_ends)
        decompressed = self._decompressed
        if decompressed is None:
            return stored
        if decompressed.damages and DAMAGE not in self._wanted:
            row, reason = next(iter(decompressed.damages.items()))
            head = records.heads[row]
            raise RecordError(
                f"message at offset {head['queue_offset']} of queue {head['queue_id']}, commit log offset "
                f"{head['physical_offset']}, has a body that cannot be decompressed: {reason}"
            )
        return decompressed.merged_into(stored, records)

    def _damage(self) -> pa.StringArray:
        """Return the reasons why bodies could not be decompressed."""
        if self._decompressed is None or not self._decompressed.damages:
            return pa.nulls(len(self._records), pa.string())
        return pa.array([self._decompressed.damages.get(row) for row in range(len(self._records))], pa.string())


Column: TypeAlias = Callable[[_ColumnBuilder], pa.Array]

_NUMBERS: Final = {np.int32: pa.int32(), np.int64: pa.int64()}
_TIMESTAMP: Final = pa.timestamp("us", "UTC")
# The years 1 to 9999.
_MILLIS_MIN: Final = -62_135_596_800_000
_MILLIS_MAX: Final = 253_402_300_799_999
_PROPERTIES: Final = {"msgId": property_names.UNIQ_KEY, "keys": property_names.KEYS, "tags": property_names.TAGS}
_COLUMNS: Final[dict[str, Column]] = {
    "topic": _ColumnBuilder._topics,
    "brokerName": _ColumnBuilder._broker_names,
    "queueId": lambda rows: rows._number("queue_id", np.int32),
    "queueOffset": lambda rows: rows._number("queue_offset", np.int64),
    "commitLogOffset": lambda rows: rows._number("physical_offset", np.int64),
    "msgId": _ColumnBuilder._message_ids,
    "offsetMsgId": _ColumnBuilder._offset_message_ids,
    "keys": lambda rows: rows._property("keys"),
    "tags": lambda rows: rows._property("tags"),
    "bornTimestamp": lambda rows: rows._time("born_timestamp"),
    "storeTimestamp": lambda rows: rows._time("store_timestamp"),
    "bornHost": lambda rows: varlen.host_texts(rows._records.heads["born_host"]),
    "reconsumeTimes": lambda rows: rows._number("reconsume_times", np.int32),
    PROPERTIES: _ColumnBuilder._properties,
    BODY: _ColumnBuilder._bodies,
    DAMAGE: _ColumnBuilder._damage,
}
