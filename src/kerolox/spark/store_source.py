"""`format("rocketmq-store")`: the files of a commit log as a table, read without a broker."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kerolox.spark.given import Given, OptionError
from kerolox.spark.planning import parallelism
from kerolox.spark.rows import Block, Only, Origin, batches_of
from kerolox.spark.schema import DAMAGE, Wanted, columns, with_columns
from kerolox.spark.store_ranges import LogRange, Period, StoreFiles, ranges
from kerolox.spark.store_reading import blocks
from kerolox.spark.values import VALUE_OPTIONS, Values, value_format_of, with_value_columns
from kerolox.store.log.scan import Damage

log = logging.getLogger(__name__)

# Batches with fewer rows, as where few records are of the wanted topics, are put together.
_ROWS_MIN: Final = 1024
# Or with so many bytes: those of few large messages.
_BYTES_MIN: Final = 4 * 1024 * 1024
_FOREVER: Final = 2**63 - 1


class OnDamage(Enum):
    """What becomes of bytes that hold no record, and of files that vanish while they are read."""

    FAIL = "fail"
    # Left out, with a warning in the worker's log.
    SKIP = "skip"
    # A row for each, with the column `damage`.
    REPORT = "report"


@dataclass(frozen=True)
class StoreOptions:
    """The options of a read, checked."""

    path: Path
    topics: frozenset[str] = frozenset()
    period: Period = Period()
    # About as many ranges as can be read at the same time, if it is not said.
    range_size: int | None = None
    broker_name: str | None = None
    is_verified: bool = True
    is_unflushed_read: bool = False
    has_properties: bool = False
    on_damage: OnDamage = OnDamage.FAIL

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "StoreOptions":
        """Returns what Spark's options say; OptionError names the one that is wrong, and the remedy."""
        given = Given(options)
        path = given.text("path")
        if path is None:
            raise OptionError("option path is missing: give the store directory, as in load('/data/store')")
        period = Period(
            _millis("startingTimestamp", given.text("startingTimestamp"), 0),
            _millis("endingTimestamp", given.text("endingTimestamp"), _FOREVER),
        )
        if period.start_millis > period.end_millis:
            raise OptionError("option startingTimestamp is later than endingTimestamp: give an earlier one")
        topics = given.text("topics", "subscribe") or ""
        found = cls(
            Path(path.removeprefix("file://")).expanduser(),
            frozenset(topic.strip() for topic in topics.split(",") if topic.strip()),
            period,
            given.count("maxPartitionBytes"),
            given.text("brokerName"),
            given.flag("verify", default=True),
            given.flag("readUnflushed", default=False),
            given.flag("includeProperties", default=False),
            OnDamage(given.one_of("onDamage", *(choice.value for choice in OnDamage), default="fail")),
            {name: text for name in VALUE_OPTIONS if (text := given.text(name)) is not None},
        )
        given.end()
        return found


class RocketMQStore(DataSource):
    """Batch only: what a running broker appends is better read from the broker."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        options = StoreOptions.of(self.options)
        plain = columns(include_properties=options.has_properties, include_damage=options.on_damage is OnDamage.REPORT)
        return with_value_columns(plain, value_format_of(options.values))

    def reader(self, schema: StructType) -> "StoreReader":
        return StoreReader(StoreOptions.of(self.options), schema)


class RangePartition(InputPartition):
    def __init__(self, place: LogRange) -> None:
        super().__init__(place)
        self.place = place


class StoreReader(DataSourceReader):
    """A partition for each range; each reads its files itself, so they must be where `path` says on every worker."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        self._options = options
        self._values = Values(value_format_of(options.values), schema)
        self._wanted = self._values.wanted

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        files = StoreFiles(options.path)
        try:
            found = ranges(
                files,
                options.period if options.period != Period() else None,
                size=options.range_size,
                parallelism=parallelism(),
                is_unflushed_read=options.is_unflushed_read,
            )
        finally:
            files.close()
        # Spark wants at least one.
        return [RangePartition(place) for place in found or [LogRange(0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.place.start == partition.place.end:
            return
        for batch in _gathered(self._batches(partition.place)):
            yield self._values.add(batch)

    def _batches(self, place: LogRange) -> Iterator[pa.RecordBatch]:
        options = self._options
        only = Only(
            topics=options.topics, start_millis=options.period.start_millis, end_millis=options.period.end_millis
        )
        asked = self._wanted if options.on_damage is OnDamage.FAIL else with_columns(self._wanted, DAMAGE)
        files = StoreFiles(options.path)
        try:
            for found in _found(files, place, Origin(options.broker_name), options.is_verified):
                made = [self._damaged(found, asked)] if isinstance(found, Damage) else batches_of(found, asked, only)
                for batch in made:
                    yield self._without_damaged(batch) if asked is not self._wanted else batch
        finally:
            files.close()

    def _damaged(self, damage: Damage, asked: Wanted) -> pa.RecordBatch:
        text = f"no record from {damage.offset} to {damage.end_offset}: {damage.reason}"
        if self._options.on_damage is OnDamage.FAIL:
            raise DamagedStore(
                f"{self._options.path} has {text}; set option onDamage to 'report' for a row that says so, "
                "or to 'skip' to go on without"
            )
        known = {"commitLogOffset": damage.offset, DAMAGE: text}
        arrays = [pa.array([known.get(field.name)], field.type) for field in asked.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=asked.arrow)

    def _without_damaged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._options.on_damage is OnDamage.SKIP:
            damages = batch.column(DAMAGE)
            if damages.null_count < len(damages):
                for text in damages.drop_null().to_pylist():
                    log.warning("left out of %s: %s", self._options.path, text)
                batch = batch.filter(pc.is_null(damages))
        return batch.select(list(self._wanted.names))


class DamagedStore(Exception):
    """A store with bytes that hold no record; an exception of its own, since Spark shows its name."""


def _found(files: StoreFiles, place: LogRange, origin: Origin, is_verified: bool) -> Iterator[Block | Damage]:
    if place.start < files.log.first_offset:
        yield Damage(place.start, place.end, "it was deleted since the ranges were planned")
        return
    try:
        yield from blocks(files.log, place, origin, is_verified=is_verified)
    except FileNotFoundError as error:
        yield Damage(place.start, place.end, f"{error.filename} was deleted while it was read")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in batches that are worth it."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
        if rows >= _ROWS_MIN or size >= _BYTES_MIN:
            yield _together(held)
            held, rows, size = [], 0, 0
    if held:
        yield _together(held)


def _together(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(held) == 1:
        return held[0]
    arrays = [pa.concat_arrays(arrays) for arrays in zip(*held, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=held[0].schema)


def _millis(name: str, text: str | None, otherwise: int) -> int:
    if text is None:
        return otherwise
    try:
        if text.strip().lstrip("-").isdigit():
            return int(text)
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(
            f"option {name} is {text!r}: give milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
