"""Topics as streams: how far a batch goes, and which part of it each task reads.

What a checkpoint keeps is all that counts. Nothing is asked of a server that would make a batch another one when it
is run again: where it begins and ends is in the checkpoint, new queues included.
"""

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kerolox.spark.connecting import release_sessions
from kerolox.spark.edges import all_of
from kerolox.spark.given import OptionError
from kerolox.spark.horizon import Horizon
from kerolox.spark.java import spark_version
from kerolox.spark.offsets import Offsets, Place, listed, ranges, to_json
from kerolox.spark.planning import parallelism, partitions_of
from kerolox.spark.pulling import DataLost
from kerolox.spark.tasks import Ranges, Reading

log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader):
    """What all versions of Spark have in common."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._horizon: Horizon | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy, and must not have what is connected.
        return {"_reading": self._reading, "_horizon": None}

    @property
    def horizon(self) -> Horizon:
        if self._horizon is None:
            self._horizon = Horizon(self._reading.options)
            _leave_when_told()
        return self._horizon

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Nothing. Where the first batch begins is said with where it ends, and so kept in the checkpoint."""
        return {}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options, cluster = self._reading.options, self.horizon.cluster
        parts = partitions_of(
            ranges(Place.from_json(start), Place.from_json(end)),
            parallelism=parallelism(),
            partitions_min=options.partitions_min,
            records_per_partition_max=options.records_per_partition_max,
        )
        addresses = cluster.addresses()
        return [Ranges(part, addresses) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: it comes a batch late, and never for the last one."""

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
        """For Spark 4.2 and newer, which says where a batch begins, and takes how much it shall be."""

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            options = self._reading.options
            if options.offsets_per_trigger_max is not None:
                return ReadMaxRows(options.offsets_per_trigger_max)
            if options.bytes_per_trigger_max is not None:
                return ReadMaxBytes(options.bytes_per_trigger_max)
            if options.offsets_per_trigger_min is not None:
                return ReadMinRows(options.offsets_per_trigger_min)
            return ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            is_limited = not isinstance(limit, ReadAllAvailable)
            end = self.horizon.after(Place.from_json(start), is_first=not start, is_limited=is_limited)
            return start if end is None else end.to_json()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            self.horizon.aim()

        def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
            return to_json(self.horizon.ends) or None


class PlainStreamReader(StreamReader):
    """For Spark 4.0 and 4.1, where a batch takes all there is, and nobody says where it begins.

    So the first batch after a restart ends with the queues that are there then, whatever the checkpoint has.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._last: Place | None = None
        # How far queues were read that such a batch did not have, and those of them that no checkpoint has yet.
        self._away: Offsets = {}
        self._unsaid: Offsets = {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._last is None:
            # Perhaps there is a checkpoint. Whoever reads from it has no use for where queues begin.
            self._last = self.horizon.after(Place(), is_first=True, is_limited=False)
        else:
            end = self.horizon.after(self._last, is_first=False, is_limited=False)
            unsaid, self._unsaid = self._unsaid, {}
            if end is not None:
                self._last = Place(end.offsets, self._last.begins | end.begins, unsaid | end.anew)
        assert self._last is not None
        return self._last.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        known, last = Place.from_json(start), Place.from_json(end)
        self._keep(known, last)
        new = set(last.offsets) - set(known.offsets) - set(last.anew)
        if start and new:
            # They came while nothing ran, and where a query without a checkpoint would begin does not matter.
            cluster, away = self.horizon.cluster, {queue: self._away[queue] for queue in new & set(self._away)}
            begins = cluster.patiently(lambda: all_of(cluster.begins(new - set(away))), "offsets of new queues")
            start = Place(known.offsets | begins | away).to_json()
        return super().partitions(start, end)

    def _keep(self, known: Place, last: Place) -> None:
        """Sees to it that the batch after this one has all queues that were read so far.

        DataLost if that may never come: a query that is to end asks for nothing after its first batch, and the next
        one would take such queues for new.
        """
        behind = {
            queue: offset
            for queue, offset in known.offsets.items()
            if last.offsets.get(queue, -1) < offset and queue not in last.anew
        }
        self._away |= behind
        if self._last is None:
            # The batch was planned before a restart; the next one goes on from here.
            self._last = last
        elif self._reading.options.fail_on_data_loss and (lost := self._without(behind)):
            raise DataLost(
                f"{listed(lost)}: gone, or shorter than what was read of it. Nothing was read, and the query goes on "
                "if it is started again when the broker is up. If that was meant, set option failOnDataLoss to false"
            )
        if unsaid := self._without(behind):
            log.warning("%s: gone, or shorter than what was read of it", listed(unsaid))
            self._last = Place(self._last.offsets | unsaid, self._last.begins, unsaid)
            self._unsaid = unsaid

    def _without(self, offsets: Offsets) -> Offsets:
        """Returns those to which the last batch that was planned does not come."""
        assert self._last is not None
        reached = self._last.offsets
        return {queue: offset for queue, offset in offsets.items() if reached.get(queue, -1) < offset}


def reader(reading: Reading) -> StreamReader:
    """Returns the reader for the Spark that is installed; OptionError if that cannot do what was asked for."""
    if spark_version() >= (4, 2):
        return LimitedStreamReader(reading)
    options = reading.options
    if options.has_limit or options.offsets_per_trigger_min is not None:
        raise OptionError(
            "options maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger need Spark 4.2 or newer: "
            "leave them out, or install a newer pyspark"
        )
    return PlainStreamReader(reading)


def _leave_when_told() -> None:
    """Closes connections when Spark ends this process: it calls `stop` for no query, but sends SIGTERM."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _leave)


def _leave(*_: object) -> None:
    release_sessions()
    os._exit(0)
