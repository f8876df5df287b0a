"""`format("rocketmq-store")`: commit log files as a table, read without a broker."""

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

from kerolox.spark.arrow.columns import Block, Origin, RecordFilter, to_batches
from kerolox.spark.arrow.values import VALUE_OPTIONS, ValueColumns, parse_value_format, with_value_columns
from kerolox.spark.option_parser import OptionError, OptionParser
from kerolox.spark.read.partitioning import parallelism
from kerolox.spark.schema import DAMAGE, WantedColumns, topic_schema, with_columns
from kerolox.spark.store.ranges import LogRange, Period, StoreFiles, plan_ranges
from kerolox.spark.store.reader import read_blocks
from kerolox.store.log.scan import Damage

log = logging.getLogger(__name__)

# Smaller batches, for example if few records have a wanted topic, are merged until they have this many rows,
_ROWS_MIN: Final = 1024
# or this many bytes.
_BYTES_MIN: Final = 4 * 1024 * 1024
_FOREVER: Final = 2**63 - 1


class OnDamage(Enum):
    """How damaged ranges, and files that are deleted during the read, are handled."""

    FAIL = "fail"
    # Skipped, with a warning in the worker's log.
    SKIP = "skip"
    # One row for each, with the column `damage`.
    REPORT = "report"


@dataclass(frozen=True)
class StoreOptions:
    """Checked options for reading a store."""

    path: Path
    topics: frozenset[str] = frozenset()
    period: Period = Period()
    # None: chosen so that there is about one range per core.
    range_size: int | None = None
    broker_name: str | None = None
    verify_crc: bool = True
    reads_unflushed: bool = False
    has_properties: bool = False
    on_damage: OnDamage = OnDamage.FAIL

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "StoreOptions":
        """Parse Spark's options; OptionError names the invalid one and the remedy."""
        parser = OptionParser(options)
        path = parser.text("path")
        if path is None:
            raise OptionError("option path is missing: give the store directory, as in load('/data/store')")
        period = Period(
            _millis("startingTimestamp", parser.text("startingTimestamp"), 0),
            _millis("endingTimestamp", parser.text("endingTimestamp"), _FOREVER),
        )
        if period.start_millis > period.end_millis:
            raise OptionError("option startingTimestamp is later than endingTimestamp: give an earlier one")
        topics = parser.text("topics", "subscribe") or ""
        found = cls(
            Path(path.removeprefix("file://")).expanduser(),
            frozenset(topic.strip() for topic in topics.split(",") if topic.strip()),
            period,
            parser.count("maxPartitionBytes"),
            parser.text("brokerName"),
            parser.flag("verify", default=True),
            parser.flag("readUnflushed", default=False),
            parser.flag("includeProperties", default=False),
            OnDamage(parser.one_of("onDamage", *(choice.value for choice in OnDamage), default="fail")),
            {name: text for name in VALUE_OPTIONS if (text := parser.text(name)) is not None},
        )
        parser.end()
        return found


class RocketMQStore(DataSource):
    """The data source; batch only, since new messages of a running broker are better read from the broker."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-store"

    def schema(self) -> StructType:
        options = StoreOptions.of(self.options)
        plain = topic_schema(
            include_properties=options.has_properties, include_damage=options.on_damage is OnDamage.REPORT
        )
        return with_value_columns(plain, parse_value_format(options.values))

    def reader(self, schema: StructType) -> "StoreReader":
        return StoreReader(StoreOptions.of(self.options), schema)


class RangePartition(InputPartition):
    def __init__(self, log_range: LogRange) -> None:
        super().__init__(log_range)
        self.log_range = log_range


class StoreReader(DataSourceReader):
    """Reads one range per partition. Workers open the files themselves, so `path` must exist on every worker."""

    def __init__(self, options: StoreOptions, schema: StructType) -> None:
        self._options = options
        self._values = ValueColumns(parse_value_format(options.values), schema)
        self._wanted = self._values.wanted

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        files = StoreFiles(options.path)
        try:
            found = plan_ranges(
                files,
                options.period if options.period != Period() else None,
                size=options.range_size,
                parallelism=parallelism(),
                reads_unflushed=options.reads_unflushed,
            )
        finally:
            files.close()
        # Spark needs at least one partition.
        return [RangePartition(log_range) for log_range in found or [LogRange(0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        if partition.log_range.start == partition.log_range.end:
            return
        for batch in _merge_small(self._batches(partition.log_range)):
            yield self._values.add(batch)

    def _batches(self, log_range: LogRange) -> Iterator[pa.RecordBatch]:
        options = self._options
        only = RecordFilter(
            topics=options.topics, start_millis=options.period.start_millis, end_millis=options.period.end_millis
        )
        asked = self._wanted if options.on_damage is OnDamage.FAIL else with_columns(self._wanted, DAMAGE)
        files = StoreFiles(options.path)
        try:
            for found in _read_range(files, log_range, Origin(options.broker_name), verify_crc=options.verify_crc):
                made = [self._damaged(found, asked)] if isinstance(found, Damage) else to_batches(found, asked, only)
                for batch in made:
                    yield self._without_damaged(batch) if asked is not self._wanted else batch
        finally:
            files.close()

    def _damaged(self, damage: Damage, asked: WantedColumns) -> pa.RecordBatch:
        text = f"no record from {damage.offset} to {damage.end_offset}: {damage.reason}"
        if self._options.on_damage is OnDamage.FAIL:
            raise DamagedStore(
                f"{self._options.path} has {text}; set option onDamage to 'report' for a row with the reason, "
                "or to 'skip' to continue without"
            )
        known = {"commitLogOffset": damage.offset, DAMAGE: text}
        arrays = [pa.array([known.get(field.name)], field.type) for field in asked.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=asked.arrow)

    def _without_damaged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._options.on_damage is OnDamage.SKIP:
            damages = batch.column(DAMAGE)
            if damages.null_count < len(damages):
                for text in damages.drop_null().to_pylist():
                    log.warning("skipped in %s: %s", self._options.path, text)
                batch = batch.filter(pc.is_null(damages))
        return batch.select(list(self._wanted.names))


class DamagedStore(Exception):
    """A store with damaged ranges; its own class, since Spark shows its name."""


def _read_range(
    files: StoreFiles, log_range: LogRange, origin: Origin, *, verify_crc: bool
) -> Iterator[Block | Damage]:
    if log_range.start < files.log.first_offset:
        yield Damage(log_range.start, log_range.end, "it was deleted after the ranges were planned")
        return
    try:
        yield from read_blocks(files.log, log_range, origin, verify_crc=verify_crc)
    except FileNotFoundError as error:
        yield Damage(log_range.start, log_range.end, f"{error.filename} was deleted during the read")


def _merge_small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge small batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
        if rows >= _ROWS_MIN or size >= _BYTES_MIN:
            yield _concatenated(held)
            held, rows, size = [], 0, 0
    if held:
        yield _concatenated(held)


def _concatenated(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(held) == 1:
        return held[0]
    arrays = [pa.concat_arrays(arrays) for arrays in zip(*held, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=held[0].schema)


def _millis(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    try:
        if text.strip().lstrip("-").isdigit():
            return int(text)
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(
            f"option {name} is {text!r}: give milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)
