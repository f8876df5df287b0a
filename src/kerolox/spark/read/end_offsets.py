"""The end of each micro-batch of a stream, and the handling of queues that disappear or are recreated."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple

from kerolox.errors import KeroloxError
from kerolox.spark.cluster.metadata import ClusterMetadata
from kerolox.spark.options import ReadOptions
from kerolox.spark.read.offset_json import Offsets, StreamPosition, format_queues
from kerolox.spark.read.partitioning import fair_shares, shares_of_bytes
from kerolox.spark.read.queue_bounds import QueueBounds, query_bounds
from kerolox.spark.read.queue_reader import DATA_LOSS_REMEDY, DataLost, Unreadable
from kerolox.spark.read.requested_offsets import check_queues_exist, offsets_or_raise, readable_queues, resolve_offsets
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5


class ReadableOffsets(NamedTuple):
    """The range to read next: up to `ends`. A queue that is not in `ends` is not read now."""

    # First offsets of queues that the checkpoint may not have.
    begins: Offsets
    ends: Offsets
    # First offsets of queues that were deleted and recreated.
    recreated: Offsets
    # Queues that no longer exist, and move from the offsets of the checkpoint to its retired queues.
    gone: frozenset[MessageQueue] = frozenset()


class EndOffsets:
    """Determines how far the next batch reads. It lives as long as the query, in the planning process."""

    def __init__(
        self,
        options: ReadOptions,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self.now = now
        self.pause = pause
        self.cluster = ClusterMetadata(options.connection, options.pull_group)
        # The ends at which a query with trigger availableNow stops; None for other triggers.
        self.target: Offsets | None = None
        # The last known end of every queue that this process has queried.
        self.ends: Offsets = {}
        # Since when queues are missing (False), or shorter than the offset already read (True).
        self._missing: dict[tuple[MessageQueue, bool], float] = {}
        self._last_batch = float("-inf")
        self._committed: Offsets = {}

    def set_target(self) -> None:
        """Make the query stop at the current ends of its queues (trigger availableNow)."""
        cluster = self.cluster
        self.target = cluster.retry(
            lambda: offsets_or_raise(cluster.max_offsets(readable_queues(cluster, self._options))), "queues"
        )
        self.ends |= self.target

    def next_position(self, start: StreamPosition, *, is_first: bool, is_limited: bool) -> StreamPosition | None:
        """Return the end of the batch that starts at `start`; None if no batch should run now.

        DataLost if messages were deleted before they were read, unless failOnDataLoss is false.
        """
        if is_first:
            begins, ends, recreated, gone = self._first()
        elif self.target is not None:
            begins, ends, recreated, gone = self._next_to_target(start)
        else:
            begins, ends, recreated, gone = self._next(start)
        new = {queue: offset for queue, offset in begins.items() if queue not in start.offsets}
        if not is_first:
            new = self.first_offsets(new, ends, start)
        positions = {queue: offset for queue, offset in start.offsets.items() if queue not in gone} | new | recreated
        if self.target is not None:
            # A queue whose first message is after its target has nothing left to read; it is not too short.
            self.target |= {queue: max(offset, self.target[queue]) for queue, offset in new.items()}
        available = {queue: max(ends[queue] - positions[queue], 0) for queue in ends}
        if not is_first and not (new or recreated or gone) and not self._is_due(sum(available.values())):
            return None
        taken = self._apply_limits(available, positions) if is_limited else available
        self._last_batch = self.now()
        offsets = {queue: offset + taken.get(queue, 0) for queue, offset in positions.items()}
        return self._with_retired(
            StreamPosition(offsets, new, recreated, self._behind(offsets, start, is_first=is_first)), start
        )

    def _first(self) -> ReadableOffsets:
        """Return the requested start and the end of all queues, for a query without a checkpoint."""
        if self.target is None:
            firsts, ends = self.cluster.retry(self._query_all, "offsets")
            self.ends = ends
        else:
            check_queues_exist(self._options, set(self.target))
            firsts, ends, *_ = self._wait_for_remaining(StreamPosition())
        starts = self.cluster.retry(lambda: resolve_offsets(self.cluster, self._options.start, firsts, ends), "offsets")
        return ReadableOffsets(starts, self._capped_at_target(ends), {})

    def _query_all(self) -> tuple[Offsets, Offsets]:
        queues = readable_queues(self.cluster, self._options)
        check_queues_exist(self._options, queues)
        return offsets_or_raise(self.cluster.min_offsets(queues)), offsets_or_raise(self.cluster.max_offsets(queues))

    def _next(self, start: StreamPosition) -> ReadableOffsets:
        """Return the first offsets of new queues, and the ends of all queues whose broker responds."""
        offsets = start.offsets
        try:
            queues = readable_queues(self.cluster, self._options)
        except KeroloxError as error:
            # Until the NameServers are reachable again, the stream has nothing new.
            log.warning("queues cannot be listed now: %s", error)
            self._missing = {}
            return ReadableOffsets({}, {}, {})
        self._commit_progress(offsets)
        ends, firsts = self.cluster.max_offsets(queues), self.cluster.min_offsets(queues)
        for queue, reason in ends.failed.items():
            log.warning("the end of %s cannot be queried now: %s", format_queues([queue]), reason)
        known = {queue: end for queue, end in ends.offsets.items() if queue in firsts.offsets}
        self.ends |= known
        self._check_not_deleted(offsets, firsts.offsets)
        short = {queue for queue, end in known.items() if end < offsets.get(queue, 0)}
        gone, late_short = self._check_missing(start, set(offsets) - queues, short)
        recreated = self._log_recreated({queue: firsts.offsets[queue] for queue in late_short})
        begins = {queue: firsts.offsets[queue] for queue in known if queue not in offsets}
        return ReadableOffsets(begins, known, recreated, gone)

    # Queries with a target (trigger availableNow)

    def _next_to_target(self, start: StreamPosition) -> ReadableOffsets:
        """Return the first offsets of new queues, and the ends of all queues with messages left before the target."""
        found = self._wait_for_remaining(start)
        self._commit_progress(start.offsets)
        self._check_not_deleted(start.offsets, found.begins)
        return found._replace(ends=self._capped_at_target(found.ends))

    def _wait_for_remaining(self, start: StreamPosition) -> ReadableOffsets:
        """Wait until all queues with messages left can be read, and return their bounds.

        Spark ends a query with a target when there is nothing new, so a broker that is briefly down must not look
        like that.
        """
        assert self.target is not None
        offsets, gone = start.offsets, frozenset[MessageQueue]()
        if not self._options.fail_on_data_loss:
            # Losses are accepted, so do not wait for queues that were missing when the query started.
            gone = frozenset(offsets.keys() - self.target.keys())
            self._warn_retired(start, gone)
        left = {
            queue: max(offsets.get(queue, 0), self.target.get(queue, 0))
            for queue in (offsets.keys() | self.target.keys()) - gone
            if offsets.get(queue) != self.target.get(queue)
        }
        if not left:
            return ReadableOffsets({}, {}, {}, gone)
        bounds = self._wait_for_bounds(left)
        recreated = {} if bounds.is_complete else self._continue_without(bounds, start)
        begins, ends = bounds.begins, bounds.ends
        self.ends |= ends
        # A queue that was missing when the target was set, or shorter than the offset already read, is read to its end.
        self.target |= {queue: end for queue, end in ends.items() if self.target.get(queue, -1) < offsets.get(queue, 0)}
        return ReadableOffsets(begins, ends, recreated, gone | (bounds.unlisted & offsets.keys()))

    def _wait_for_bounds(self, least: Offsets) -> QueueBounds:
        """Query bounds until every queue has responded and is long enough, at most for retryTimeout."""
        deadline = self.now() + self._retry_millis / 1000
        last_problem = ""
        while True:
            bounds = query_bounds(self.cluster, self._options, least)
            if bounds.is_complete or self.now() >= deadline:
                return bounds
            if str(bounds) != last_problem:
                last_problem = str(bounds)
                log.warning("%s; waiting to read the rest", last_problem)
            self.pause(_PAUSE_SECONDS)

    def _continue_without(self, bounds: QueueBounds, start: StreamPosition) -> Offsets:
        """Drop queues that no longer exist, and return the first offsets of queues that were recreated.

        DataLost if messages are lost and failOnDataLoss is true; Unreadable if a broker did not respond.
        """
        assert self.target is not None
        offsets = start.offsets
        unread = frozenset(queue for queue in bounds.unlisted if not self._is_drained(start, queue))
        lost = replace(bounds, unlisted=unread).loss_text
        if lost and self._options.fail_on_data_loss:
            raise DataLost(
                f"{lost}, for {self._retry_millis} ms. If the queue was deleted, set option failOnDataLoss to "
                "false; if its broker takes longer, increase retryTimeout"
            )
        if bounds.unreachable:
            raise Unreadable(
                f"{bounds.unreachable_text}, for {self._retry_millis} ms. Are the servers up? Restart the query when "
                "they are; if they take longer, increase retryTimeout"
            )
        if lost:
            log.warning("%s, for %d ms: the query ends without the lost messages", lost, self._retry_millis)
        self._warn_retired(start, bounds.unlisted & offsets.keys())
        for queue in bounds.unlisted:
            self.target.pop(queue, None)
        self.target |= {queue: bounds.ends[queue] for queue in bounds.short}
        recreated = [queue for queue in bounds.short if bounds.ends[queue] < offsets.get(queue, 0)]
        return self._log_recreated({queue: bounds.begins[queue] for queue in recreated})

    def _capped_at_target(self, ends: Offsets) -> Offsets:
        if self.target is None:
            return ends
        return {queue: min(end, self.target[queue]) for queue, end in ends.items()}

    # Messages deleted before they were read

    def _check_not_deleted(self, offsets: Offsets, firsts: Offsets) -> None:
        lost = {queue for queue, offset in offsets.items() if firsts.get(queue, 0) > offset}
        if lost and self._options.fail_on_data_loss:
            # With failOnDataLoss=false the task that reads the queue logs the loss.
            self._report_deleted(min(lost), offsets[min(lost)], firsts[min(lost)])

    def first_offsets(self, firsts: Offsets, ends: Offsets, start: StreamPosition) -> Offsets:
        """Return the first offsets of queues that are new to a query: 0, or the offset at which they were retired.

        DataLost if messages from there on were deleted, unless failOnDataLoss is false: then reading starts at the
        first message that is left.
        """
        found = {}
        for queue, first in firsts.items():
            wanted = 0
            if queue in start.retired and self._is_same_queue(queue, first, ends[queue], start):
                wanted = start.retired[queue]
                log.info("%s exists again and continues at offset %d", format_queues([queue]), wanted)
            if first > wanted:
                self._report_deleted(queue, wanted, first)
            found[queue] = max(first, wanted)
        return found

    def _is_same_queue(self, queue: MessageQueue, first: int, end: int, start: StreamPosition) -> bool:
        """Whether a retired queue has come back, rather than a new queue with the same name.

        The last message that was read before, or the first one left, must be older than the retirement.
        """
        offset = start.retired[queue]
        if end < offset:
            return False
        probe_offset = min(max(offset - 1, first), max(end - 1, 0))
        message = self.cluster.retry(lambda: self.cluster.stored_from(queue, probe_offset), "messages of new queues")
        return message is None or message.millis <= start.retired_at[queue]

    def _report_deleted(self, queue: MessageQueue, offset: int, first: int) -> None:
        what = f"offsets {offset} to {first - 1} of {format_queues([queue])} are lost: deleted before they were read"
        if self._options.fail_on_data_loss:
            raise DataLost(f"{what}. {DATA_LOSS_REMEDY}")
        log.warning("%s", what)

    # Queues that disappear

    def _check_missing(
        self, start: StreamPosition, gone: set[MessageQueue], short: set[MessageQueue]
    ) -> tuple[frozenset[MessageQueue], set[MessageQueue]]:
        """Return the queues that have been missing, and those that have been too short, for longer than retryTimeout.

        DataLost if one of them had unread messages, unless failOnDataLoss is false. Until then the stream waits: a
        broker may restart, and a replica that takes over may have to catch up.
        """
        now, since = self.now(), self._missing
        states = [(queue, False) for queue in gone] + [(queue, True) for queue in short]
        self._missing = {state: since.get(state, now) for state in states}
        late = {queue for (queue, _), then in self._missing.items() if (now - then) * 1000 >= self._retry_millis}
        lost = {queue for queue in late if queue in short or not self._is_drained(start, queue)}
        if lost and self._options.fail_on_data_loss:
            raise DataLost(
                f"{format_queues(lost)}: missing, or shorter than the offset already read, for {self._retry_millis} "
                "ms. If the queue was deleted, set option failOnDataLoss to false; if its broker takes longer, "
                "increase retryTimeout"
            )
        self._warn_retired(start, late & gone)
        return frozenset(late & gone), late & short

    def _is_drained(self, start: StreamPosition, queue: MessageQueue) -> bool:
        """Whether a queue has been read to its last known end."""
        offset = start.offsets.get(queue, 0)
        if queue in self.ends:
            return offset >= self.ends[queue]
        return start.behind is not None and queue in start.offsets and queue not in start.behind

    def _warn_retired(self, start: StreamPosition, gone: Collection[MessageQueue]) -> None:
        for queue in sorted(gone):
            offset, end = start.offsets[queue], self.ends.get(queue, (start.behind or {}).get(queue))
            if self._is_drained(start, queue):
                end_text = "its last known end"
            else:
                end_text = "and its end is not known" if end is None else f"and ended at {end}"
            log.warning(
                "%s no longer exists and is retired: it was read to offset %d, %s",
                format_queues([queue]),
                offset,
                end_text,
            )

    def _behind(self, offsets: Offsets, start: StreamPosition, *, is_first: bool) -> Offsets | None:
        """Return the ends of queues with unread messages; None if some ends are unknown."""
        before = {} if is_first else start.behind
        if before is None and not offsets.keys() <= self.ends.keys():
            return None
        ends = (before or {}) | self.ends
        return {queue: ends[queue] for queue, offset in offsets.items() if ends.get(queue, offset) > offset}

    @staticmethod
    def _with_retired(position: StreamPosition, start: StreamPosition) -> StreamPosition:
        """Return `position` with the queues that only `start` has added as retired."""
        millis = time.time_ns() // 1_000_000
        retired = {
            queue: offset for queue, offset in (start.retired | start.offsets).items() if queue not in position.offsets
        }
        times = {queue: start.retired_at.get(queue, millis) for queue in retired}
        return replace(position, retired=retired, retired_at=times)

    @staticmethod
    def _log_recreated(begins: Offsets) -> Offsets:
        """Log and return `begins`: presumably these queues were deleted and recreated."""
        if begins:
            log.warning(
                "%s: shorter than the offset already read, so it is read from its first message on",
                format_queues(begins),
            )
        return begins

    @property
    def _retry_millis(self) -> int:
        return self._options.connection.retry_millis

    # Limits per batch

    def _is_due(self, available: int) -> bool:
        if not available:
            return False
        least = self._options.offsets_per_trigger_min
        if least is None or available >= least or self.target is not None:
            return True
        return (self.now() - self._last_batch) * 1000 >= self._options.trigger_delay_millis

    def _apply_limits(self, available: Offsets, positions: Offsets) -> Offsets:
        options = self._options
        available = {queue: available[queue] for queue in sorted(available)}
        turn = sum(positions.values())
        if options.offsets_per_trigger_max is not None:
            available = fair_shares(available, options.offsets_per_trigger_max, turn)
        if options.bytes_per_trigger_max is not None and any(available.values()):
            asked = {queue: positions[queue] for queue, count in available.items() if count}
            sizes = self.cluster.mean_sizes(asked)
            available = shares_of_bytes(available, sizes, options.bytes_per_trigger_max, turn)
        return available

    def _commit_progress(self, offsets: Offsets) -> None:
        """Commit the start of the batch for the group, for monitoring: everything before it has been processed."""
        if self._options.group is None:
            return
        new = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        if new:
            self._committed |= self.cluster.commit(self._options.group, new)
