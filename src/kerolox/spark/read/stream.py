"""Topics as streams: the range of each micro-batch, and its partitions.

The checkpoint alone determines a batch: start and end of every queue are in it, also of new queues. No query to a
server can change a batch that is run again.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kerolox.spark.cluster.connection import release_sessions
from kerolox.spark.jvm import spark_version
from kerolox.spark.option_parser import OptionError
from kerolox.spark.read.end_offsets import EndOffsets
from kerolox.spark.read.offset_json import Offsets, StreamPosition, format_queues, ranges_between, to_json
from kerolox.spark.read.partitioning import parallelism, partitions_of
from kerolox.spark.read.queue_reader import DataLost
from kerolox.spark.read.requested_offsets import offsets_or_raise
from kerolox.spark.read.task import RangesPartition, ReadTask

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader):
    """Common base of the readers for the versions of Spark."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._end_offsets: EndOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a pickled copy without connections.
        return {"_task": self._task, "_end_offsets": None}

    @property
    def end_offsets(self) -> EndOffsets:
        if self._end_offsets is None:
            self._end_offsets = EndOffsets(self._task.options)
            _close_on_sigterm()
        return self._end_offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Empty: the start of the first batch is part of its end offset, so that the checkpoint keeps it."""
        return {}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options, cluster = self._task.options, self.end_offsets.cluster
        parts = partitions_of(
            ranges_between(StreamPosition.from_json(start), StreamPosition.from_json(end)),
            parallelism=parallelism(),
            partitions_min=options.partitions_min,
            records_per_partition_max=options.records_per_partition_max,
        )
        addresses = cluster.addresses()
        return [RangesPartition(part, addresses) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._task.batches(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls it one batch late, and never for the last batch."""

    def stop(self) -> None:
        release_sessions()


if TYPE_CHECKING or spark_version() >= (4, 2):
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """For Spark 4.2 and newer, which passes the start of a batch and supports limits."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            options = self._task.options
            if options.offsets_per_trigger_max is not None:
                return ReadMaxRows(options.offsets_per_trigger_max)
            if options.bytes_per_trigger_max is not None:
                return ReadMaxBytes(options.bytes_per_trigger_max)
            if options.offsets_per_trigger_min is not None:
                return ReadMinRows(options.offsets_per_trigger_min)
            return ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            is_limited = not isinstance(limit, ReadAllAvailable)
            end = self.end_offsets.next_position(
                StreamPosition.from_json(start), is_first=not start, is_limited=is_limited
            )
            return start if end is None else end.to_json()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self.end_offsets.set_target()

        def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
            return to_json(self.end_offsets.ends) or None


class PlainStreamReader(StreamReader):
    """For Spark 4.0 and 4.1, where a batch has no limit and `latestOffset` is not passed its start.

    So the first batch after a restart ends with the queues that exist then, whatever the checkpoint contains.
    """

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)
        self._last: StreamPosition | None = None
        # Offsets of queues that such a batch did not contain, and those of them that are in no checkpoint yet.
        self._absent: Offsets = {}
        self._unsaved: Offsets = {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._last is None:
            # There may be a checkpoint, in which case `partitions` ignores the first offsets of this position.
            self._last = self.end_offsets.next_position(StreamPosition(), is_first=True, is_limited=False)
        else:
            end = self.end_offsets.next_position(self._last, is_first=False, is_limited=False)
            unsaved, self._unsaved = self._unsaved, {}
            if end is not None:
                self._last = replace(end, begins=self._last.begins | end.begins, recreated=unsaved | end.recreated)
        assert self._last is not None
        return self._last.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        known, last = StreamPosition.from_json(start), StreamPosition.from_json(end)
        self._carry_over(known, last)
        new = set(last.offsets) - set(known.offsets) - set(last.recreated)
        if start and new:
            # These queues were created while the query was down; startingOffsets does not apply to them.
            cluster, absent = (
                self.end_offsets.cluster,
                {queue: self._absent[queue] for queue in new & set(self._absent)},
            )
            firsts = cluster.retry(
                lambda: offsets_or_raise(cluster.min_offsets(new - set(absent))), "offsets of new queues"
            )
            begins = self.end_offsets.first_offsets(firsts, last.offsets, known)
            start = StreamPosition(known.offsets | begins | absent).to_json()
        return super().partitions(start, end)

    def _carry_over(self, known: StreamPosition, last: StreamPosition) -> None:
        """Ensure that the next batch contains all queues that were read so far.

        DataLost if there may be no next batch: a query with trigger availableNow plans only one, and the next run
        would treat the missing queues as new.
        """
        behind = {
            queue: offset
            for queue, offset in known.offsets.items()
            if last.offsets.get(queue, -1) < offset and queue not in last.recreated and queue not in last.retired
        }
        self._absent |= behind
        if self._last is None:
            # The batch was planned before a restart; the next one continues from here.
            self._last = last
        elif self._task.options.fail_on_data_loss and (lost := self._not_reached(behind)):
            raise DataLost(
                f"{format_queues(lost)}: missing, or shorter than the offset already read. Nothing was read; restart "
                "the query when the broker is up. If the queue was deleted, set option failOnDataLoss to false until "
                "the log reports the queue as retired"
            )
        if unsaved := self._not_reached(behind):
            log.warning("%s: missing, or shorter than the offset already read", format_queues(unsaved))
            self._last = replace(self._last, offsets=self._last.offsets | unsaved, recreated=unsaved)
            self._unsaved = unsaved
        # The first batch after a restart is planned without the checkpoint, and so without its retired queues.
        retired = {queue: at for queue, at in known.retired.items() if queue not in self._last.offsets}
        times = {queue: known.retired_at[queue] for queue in retired}
        self._last = replace(self._last, retired=retired | self._last.retired, retired_at=times | self._last.retired_at)

    def _not_reached(self, offsets: Offsets) -> Offsets:
        """Return the offsets that the last planned batch does not reach."""
        assert self._last is not None
        reached = self._last.offsets
        return {queue: offset for queue, offset in offsets.items() if reached.get(queue, -1) < offset}


def reader(task: ReadTask) -> StreamReader:
    """Return the reader for the installed Spark; OptionError if that does not support an option."""
    if spark_version() >= (4, 2):
        return LimitedStreamReader(task)
    options = task.options
    if options.has_limit or options.offsets_per_trigger_min is not None:
        raise OptionError(
            "options maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need Spark 4.2 or newer: "
            "leave them out, or install a newer pyspark"
        )
    return PlainStreamReader(task)


def _close_on_sigterm() -> None:
    """Close connections on SIGTERM: Spark ends this process with it, without calling `stop`."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _handle_sigterm)


def _handle_sigterm(*_: object) -> None:
    release_sessions()
    os._exit(0)
