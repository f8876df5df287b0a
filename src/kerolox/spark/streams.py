"""Topics as streams: how far a batch goes, and which part of it each task reads.

What a checkpoint keeps is all that counts. Nothing is asked of a server that would make a batch another one when it
is run again: where it begins and ends is in the checkpoint, new queues included.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.spark.cluster import Cluster
from kerolox.spark.connecting import release_sessions
from kerolox.spark.edges import all_of, check_all_there, queues_of, resolved
from kerolox.spark.given import OptionError
from kerolox.spark.java import spark_version
from kerolox.spark.offsets import Offsets, Place, listed, ranges, to_json
from kerolox.spark.options import ReadOptions
from kerolox.spark.planning import fair_shares, partitions_of, shares_of_bytes
from kerolox.spark.pulling import DataLost
from kerolox.spark.tasks import Ranges, Reading
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


class Horizon:
    """How far one may read now. It lives as long as the query does, in the process that plans for it."""

    def __init__(self, options: ReadOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self.now = now
        self.cluster = Cluster(options.connect, options.pull_group)
        # As far as was to be read when a query was told to end there; None if it goes on.
        self.target: Offsets | None = None
        self.ends: Offsets = {}
        # Since when queues are not where they should be.
        self._missing: dict[MessageQueue, float] = {}
        # Those of them of which people were told.
        self._given_up: set[MessageQueue] = set()
        self._last_batch = float("-inf")
        self._told: Offsets = {}

    def aim(self) -> None:
        """Has all that is there now be read, and nothing that comes later."""
        queues = self._queues()
        self.target = self.cluster.patiently(lambda: all_of(self.cluster.ends(queues)), "ends of queues")

    def after(self, start: Place, *, is_first: bool, is_limited: bool) -> Place | None:
        """Returns where a batch ends that begins at `start`; None if there is none to be run now."""
        if is_first:
            begins, ends = self.cluster.patiently(self._first, "offsets")
        else:
            begins, ends = self._next(start)
        new = {queue: offset for queue, offset in begins.items() if queue not in start.offsets}
        places = start.offsets | new
        available = {queue: max(ends[queue] - places[queue], 0) for queue in ends}
        if not is_first and not new and not self._is_due(sum(available.values())):
            return None
        taken = self._limited(available, places) if is_limited else available
        self._last_batch = self.now()
        offsets = {queue: offset + taken.get(queue, 0) for queue, offset in places.items()}
        return Place(offsets, new)

    def _first(self) -> tuple[Offsets, Offsets]:
        """Returns where queues begin for a query that has no checkpoint yet, and where they end."""
        queues = self._queues()
        check_all_there(self._options, queues)
        firsts, ends = all_of(self.cluster.begins(queues)), all_of(self.cluster.ends(queues))
        self.ends = ends
        starts, aimed = resolved(self.cluster, self._options.start, firsts, ends), self._aimed(ends)
        return {queue: starts[queue] for queue in aimed}, aimed

    def _next(self, start: Place) -> tuple[Offsets, Offsets]:
        """Returns where queues begin that were not there before, and where all end that can be asked."""
        self._wait_for_all(start)
        try:
            queues = queues_of(self.cluster, self._options)
        except KeroloxError as error:
            # Brokers come back; until then there is nothing new.
            log.warning("which queues there are is not known now: %s", error)
            self._check_missing(set(start.offsets), set(start.offsets))
            return {}, {}
        self._tell(start.offsets)
        ends, firsts = self.cluster.ends(queues), self.cluster.begins(queues)
        for queue, reason in ends.failed.items():
            log.warning("where %s ends is not known now: %s", listed([queue]), reason)
        known = {queue: end for queue, end in ends.offsets.items() if queue in firsts.offsets}
        self.ends |= known
        self._check_kept(start.offsets, firsts.offsets)
        short = {queue for queue, end in known.items() if end < start.offsets.get(queue, 0)}
        self._check_missing((set(start.offsets) - queues) | short, set(ends.failed))
        aimed = self._aimed(known)
        return {queue: firsts.offsets[queue] for queue in aimed if queue not in start.offsets}, aimed

    def _wait_for_all(self, start: Place) -> None:
        """Has a query that is to end wait for queues that are away: without them it would seem to be done."""
        if self.target is None or not self._options.fail_on_data_loss or set(start.offsets) <= set(self.target):
            return

        def found() -> Offsets:
            queues = queues_of(self.cluster, self._options)
            gone = set(start.offsets) - queues
            if gone:
                raise ConnectFailed(f"nobody has {listed(gone)}")
            return all_of(self.cluster.ends(queues))

        try:
            ends = self.cluster.patiently(found, "ends of queues")
        except ConnectFailed as error:
            raise DataLost(
                f"{error}, for {self._patience_millis} ms. If that was meant, set option failOnDataLoss to false; if "
                "its broker takes longer, make retryTimeout longer"
            ) from error
        assert self.target is not None
        self.target = ends | self.target

    def _queues(self) -> set[MessageQueue]:
        return self.cluster.patiently(lambda: queues_of(self.cluster, self._options), "queues")

    def _aimed(self, ends: Offsets) -> Offsets:
        if self.target is None:
            return ends
        return {queue: min(end, self.target[queue]) for queue, end in ends.items() if queue in self.target}

    # What got lost

    def _check_kept(self, offsets: Offsets, firsts: Offsets) -> None:
        lost = {queue for queue, offset in offsets.items() if firsts.get(queue, 0) > offset}
        if lost and self._options.fail_on_data_loss:
            queue = min(lost)
            raise DataLost(
                f"offsets {offsets[queue]} to {firsts[queue] - 1} of {listed([queue])} are lost: deleted before they "
                "were read. To go on without them set option failOnDataLoss to false"
            )

    def _check_missing(self, missing: set[MessageQueue], unreachable: set[MessageQueue]) -> None:
        """DataLost if queues have not been there for too long. A broker that starts again is away for a while."""
        now = self.now()
        self._missing = {queue: self._missing.get(queue, now) for queue in missing - unreachable}
        late = [queue for queue, since in self._missing.items() if (now - since) * 1000 >= self._patience_millis]
        if late and not self._options.fail_on_data_loss:
            if not set(late) <= self._given_up:
                log.warning("%s: gone, or shorter than what was read of it, and so read no further", listed(late))
            self._given_up = set(late)
        elif late:
            raise DataLost(
                f"{listed(late)}: gone, or shorter than what was read of it, for {self._patience_millis} ms. If that "
                "was meant, set option failOnDataLoss to false; if its broker takes longer, make retryTimeout longer"
            )

    @property
    def _patience_millis(self) -> int:
        return self._options.connect.retry_millis

    # How much at a time

    def _is_due(self, available: int) -> bool:
        if not available:
            return False
        least = self._options.offsets_per_trigger_min
        if least is None or available >= least or self.target is not None:
            return True
        return (self.now() - self._last_batch) * 1000 >= self._options.trigger_delay_millis

    def _limited(self, available: Offsets, places: Offsets) -> Offsets:
        options = self._options
        available = {queue: available[queue] for queue in sorted(available)}
        turn = sum(places.values())
        if options.offsets_per_trigger_max is not None:
            available = fair_shares(available, options.offsets_per_trigger_max, turn)
        if options.bytes_per_trigger_max is not None and any(available.values()):
            asked = {queue: places[queue] for queue, count in available.items() if count}
            sizes = self.cluster.mean_sizes(asked)
            available = shares_of_bytes(available, sizes, options.bytes_per_trigger_max, turn)
        return available

    def _tell(self, offsets: Offsets) -> None:
        """Lets people see how far the query has come: what it begins with has been dealt with."""
        if self._options.group is None:
            return
        new = {queue: offset for queue, offset in offsets.items() if self._told.get(queue) != offset}
        if new:
            self._told |= self.cluster.commit(self._options.group, new)


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
            parallelism=max(2, os.cpu_count() or 2),
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
    """For Spark 4.0 and 4.1, where a batch takes all there is, and nobody says where it begins."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._last: Place | None = None
        # How far queues were read whose brokers were away when the first batch after a restart was planned.
        self._away: Offsets = {}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        if self._last is None:
            # Perhaps there is a checkpoint. Whoever reads from it has no use for where queues begin.
            self._last = self.horizon.after(Place(), is_first=True, is_limited=False)
        else:
            end = self.horizon.after(self._last, is_first=False, is_limited=False)
            if end is not None:
                self._last = Place(end.offsets, self._last.begins | end.begins)
        assert self._last is not None
        return self._last.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        known, last = Place.from_json(start), Place.from_json(end)
        new = set(last.offsets) - set(known.offsets)
        if start and new:
            # They came while nothing ran, and where a query without a checkpoint would begin does not matter.
            cluster = self.horizon.cluster
            begins = cluster.patiently(lambda: all_of(cluster.begins(new - set(self._away))), "offsets of new queues")
            start = Place(known.offsets | begins | self._away).to_json()
        self._away |= {queue: offset for queue, offset in known.offsets.items() if queue not in last.offsets}
        if self._last is not None:
            self._last = Place(self._away | self._last.offsets, self._last.begins)
        return super().partitions(start, end)


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
