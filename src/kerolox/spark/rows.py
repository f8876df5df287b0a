"""Records of one buffer become the columns that are wanted of them."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kerolox.message import names
from kerolox.message.errors import RecordError
from kerolox.spark import bodies, property_columns, texts
from kerolox.spark.fields import Bytes, Fields, Longs, Mask, Records, fields, host_kinds, low_flags
from kerolox.spark.schema import BODY, DAMAGE, PROPERTIES, Wanted

_FOREVER: Final = 2**63 - 1
# What Spark carries at the least cost; with far smaller or larger batches a row costs it twice as much.
BYTES_MAX: Final = 8 * 1024 * 1024


class Origin(NamedTuple):
    """Where records come from, and between which queue offsets they are wanted."""

    broker_name: str | None = None
    start: int = 0
    end: int = _FOREVER
    # Which of a task's ranges they belong to, for whoever counts.
    number: int = 0


@dataclass(frozen=True)
class Only:
    """What else is wanted of them; empty means all."""

    # A broker compares hashes, so it may send what has another tag.
    tags: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    # When they were stored: the first millisecond, and the one after the last.
    start_millis: int = 0
    end_millis: int = _FOREVER


ANYWHERE: Final = Origin()
EVERYTHING: Final = Only()


@dataclass(slots=True)
class Block:
    """Whole records one after the other: where each begins and ends, and the number of its origin."""

    buffer: Records
    starts: Longs
    ends: Longs
    origins: list[Origin]
    origin_numbers: Longs
    # What is known of them already, if their hosts are all of one length.
    fields: Fields | None = None
    # How many messages lie between the offsets of each origin, by its number, for whoever counts them.
    counts: Counter[int] | None = None


def batches_of(
    block: Block, wanted: Wanted, only: Only = EVERYTHING, bytes_max: int = BYTES_MAX
) -> Iterator[pa.RecordBatch]:
    """Yields the messages that are wanted, in the order in which they lie; RecordError if one is no record.

    It is one batch, perhaps an empty one, unless bodies were compressed or several messages lie in one record: then
    a batch has not more than `bytes_max` and one message when all is as it was before.
    """
    flags = low_flags(block.buffer, block.starts)
    if not bodies.are_inner_batches(flags).any():
        yield from _batches(block, flags, wanted, only, bytes_max)
        return
    for starts, ends, buffer, numbers in bodies.unrolled(block.buffer, block.starts, block.ends, bytes_max):
        part = Block(buffer, starts, ends, block.origins, block.origin_numbers[numbers], counts=block.counts)
        yield from _batches(part, low_flags(buffer, starts), wanted, only, bytes_max)


def _batches(block: Block, flags: Bytes, wanted: Wanted, only: Only, bytes_max: int) -> Iterator[pa.RecordBatch]:
    rows = _by_hosts(block, flags, wanted, only)
    if BODY not in wanted or not any(part.has_compressed for part in rows):
        yield _merged([part.batch() for part in rows], [part.starts for part in rows], wanted)
        return
    # One after the other in the order in which they lie, until they are enough for a batch.
    owners = np.repeat(np.arange(len(rows)), [len(part.starts) for part in rows])
    restorings = [part.restoring() for part in rows]
    counts, size = [0] * len(rows), 0
    for owner in owners[np.argsort(np.concatenate([part.starts for part in rows]), kind="stable")].tolist():
        size += restorings[owner].next()
        counts[owner] += 1
        if size >= bytes_max:
            yield _restored(rows, restorings, counts, wanted)
            counts, size = [0] * len(rows), 0
    if any(counts):
        yield _restored(rows, restorings, counts, wanted)


def _by_hosts(block: Block, flags: Bytes, wanted: Wanted, only: Only) -> "list[_Rows]":
    """Returns the rows, those whose hosts are of one length together."""
    if block.fields is not None:
        return [_Rows(block, wanted, only, block.fields, block.origin_numbers)]
    kinds = host_kinds(flags)
    if not (kinds != kinds[0]).any():
        records = fields(block.buffer, block.starts, block.ends, int(kinds[0]))
        return [_Rows(block, wanted, only, records, block.origin_numbers)]
    found = []
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        records = fields(block.buffer, block.starts[chosen], block.ends[chosen], int(kind))
        found.append(_Rows(block, wanted, only, records, block.origin_numbers[chosen]))
    return found


def _restored(
    rows: "list[_Rows]", restorings: list[bodies.Restoring], counts: list[int], wanted: Wanted
) -> pa.RecordBatch:
    """Returns so many of the first rows of each with the bodies that were restored, and leaves those after them."""
    parts = [
        part.taken(count, restoring.taken()) for part, restoring, count in zip(rows, restorings, counts, strict=True)
    ]
    return _merged([part.batch() for part in parts], [part.starts for part in parts], wanted)


def _merged(parts: list[pa.RecordBatch], places: list[Longs], wanted: Wanted) -> pa.RecordBatch:
    """Returns the rows of all in the order of where they lie."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(places), kind="stable")
    arrays = [pa.concat_arrays(columns).take(texts.fixed(order, pa.int64())) for columns in zip(*parts, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted.arrow)


class _Rows:
    """Records whose hosts are of one length. Each column is a method; what several need is made once."""

    def __init__(self, block: Block, wanted: Wanted, only: Only, records: Fields, origin_numbers: Longs) -> None:
        self._buffer = block.buffer
        self._data = pa.py_buffer(block.buffer)
        self._origins = block.origins
        self._wanted = wanted
        self._records = records
        self._origin_numbers = origin_numbers
        self._found: dict[str, pa.StringArray] = {}
        self._offset_ids: pa.StringArray | None = None
        self._restored: bodies.Restored | None = None
        self._keep(self._are_between(only))
        if block.counts is not None:
            self._count(block.counts)
        if only.topics and self._topic() not in only.topics:
            self._keep(texts.is_one_of(self._topics(), only.topics))
        if only.tags:
            self._keep(texts.is_one_of(self._property("tags"), only.tags))

    @property
    def has_compressed(self) -> bool:
        return bool(bodies.are_compressed(self._records).any())

    def restoring(self) -> bodies.Restoring:
        return bodies.Restoring(self._buffer, self._records)

    def taken(self, count: int, restored: bodies.Restored) -> "_Rows":
        """Returns the first rows, with these bodies, and goes on with the others."""
        first = copy(self)
        first._choose(slice(count))
        first._restored = restored
        self._choose(slice(count, None))
        return first

    @property
    def starts(self) -> Longs:
        """Returns where the records lie that are left."""
        return self._records.starts

    def batch(self) -> pa.RecordBatch:
        count = len(self._records)
        if not count:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, field.type) for field in self._wanted.arrow], schema=self._wanted.arrow
            )
        arrays = [_COLUMNS[name](self) for name in self._wanted.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._wanted.arrow)

    def _are_between(self, only: Only) -> Mask:
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
        """Adds how many records of each origin are left."""
        if len(self._origins) == 1:
            counts[self._origins[0].number] += len(self._records)
            return
        found = np.bincount(self._origin_numbers, minlength=len(self._origins))
        for origin, count in zip(self._origins, found.tolist(), strict=True):
            counts[origin.number] += count

    def _keep(self, mask: Mask) -> None:
        if not mask.all():
            self._choose(mask)

    def _choose(self, rows: Mask | slice) -> None:
        self._records = self._records.chosen(rows)
        self._origin_numbers = self._origin_numbers[rows]
        # Made of records that are no longer all there.
        self._found = {}
        self._offset_ids = None

    def _number(self, field: str, kind: type[np.signedinteger]) -> pa.Array:
        return texts.fixed(self._records.heads[field].astype(kind), _NUMBERS[kind])

    def _time(self, field: str) -> pa.Array:
        millis = self._records.heads[field].astype(np.int64)
        if millis.min() < _MILLIS_MIN or millis.max() > _MILLIS_MAX:
            # What lies outside of the years that Spark knows comes from a clock that nobody set.
            millis = np.clip(millis, _MILLIS_MIN, _MILLIS_MAX)
        millis *= 1000
        return texts.fixed(millis, _TIMESTAMP)

    def _topic(self) -> str | None:
        """Returns the topic of all of them; None if it is not known to be one."""
        topic = self._records.topic
        try:
            return None if topic is None else str(topic, "utf-8")
        except UnicodeDecodeError:
            return None

    def _topics(self) -> pa.StringArray:
        records = self._records
        topic = self._topic()
        if topic is not None:
            return texts.repeated(topic, len(records))
        return texts.text(texts.cut(self._data, records.topic_starts, records.topic_ends))

    def _broker_names(self) -> pa.StringArray:
        if len(self._origins) == 1 and (name := self._origins[0].broker_name) is not None:
            return texts.repeated(name, len(self._records))
        broker_names = texts.strings([origin.broker_name for origin in self._origins])
        return broker_names.take(texts.fixed(self._origin_numbers, pa.int64()))

    def _message_ids(self) -> pa.StringArray:
        found = self._property("msgId")
        return texts.first_of(found, self._offset_message_ids()) if found.null_count else found

    def _offset_message_ids(self) -> pa.StringArray:
        if self._offset_ids is None:
            self._offset_ids = texts.offset_ids(self._records.heads)
        return self._offset_ids

    def _property(self, column: str) -> pa.StringArray:
        if column not in self._found:
            asked = {name: key for name, key in _PROPERTIES.items() if name in self._wanted.names or name == column}
            records = self._records
            self._found = property_columns.found(self._data, records.properties_starts, records.ends, asked)
        return self._found[column]

    def _properties(self) -> pa.MapArray:
        return property_columns.property_maps(self._data, self._records.properties_starts, self._records.ends)

    def _bodies(self) -> pa.BinaryArray:
        records = self._records
        stored = texts.cut(self._data, records.body_starts, records.body_ends)
        restored = self._restored
        if restored is None:
            return stored
        if restored.damages and DAMAGE not in self._wanted:
            row, reason = next(iter(restored.damages.items()))
            head = records.heads[row]
            raise RecordError(
                f"message at offset {head['queue_offset']} of queue {head['queue_id']}, commit log offset "
                f"{head['physical_offset']}, has a body that cannot be read: {reason}"
            )
        return restored.among(stored, records)

    def _damage(self) -> pa.StringArray:
        """Returns why a body is still as it is stored."""
        if self._restored is None or not self._restored.damages:
            return pa.nulls(len(self._records), pa.string())
        return pa.array([self._restored.damages.get(row) for row in range(len(self._records))], pa.string())


Column: TypeAlias = Callable[[_Rows], pa.Array]

_NUMBERS: Final = {np.int32: pa.int32(), np.int64: pa.int64()}
_TIMESTAMP: Final = pa.timestamp("us", "UTC")
# The years 1 to 9999.
_MILLIS_MIN: Final = -62_135_596_800_000
_MILLIS_MAX: Final = 253_402_300_799_999
_PROPERTIES: Final = {"msgId": names.UNIQ_KEY, "keys": names.KEYS, "tags": names.TAGS}
_COLUMNS: Final[dict[str, Column]] = {
    "topic": _Rows._topics,
    "brokerName": _Rows._broker_names,
    "queueId": lambda rows: rows._number("queue_id", np.int32),
    "queueOffset": lambda rows: rows._number("queue_offset", np.int64),
    "commitLogOffset": lambda rows: rows._number("physical_offset", np.int64),
    "msgId": _Rows._message_ids,
    "offsetMsgId": _Rows._offset_message_ids,
    "keys": lambda rows: rows._property("keys"),
    "tags": lambda rows: rows._property("tags"),
    "bornTimestamp": lambda rows: rows._time("born_timestamp"),
    "storeTimestamp": lambda rows: rows._time("store_timestamp"),
    "bornHost": lambda rows: texts.host_texts(rows._records.heads["born_host"]),
    "reconsumeTimes": lambda rows: rows._number("reconsume_times", np.int32),
    PROPERTIES: _Rows._properties,
    BODY: _Rows._bodies,
    DAMAGE: _Rows._damage,
}
