"""How far a stream reads: where each batch ends, and what is to be done where queues are not as they were."""

import logging
import time
from collections.abc import Callable
from typing import Final

from kerolox.errors import KeroloxError
from kerolox.spark.bounds import Bounds, bounds_of
from kerolox.spark.cluster import Cluster
from kerolox.spark.edges import all_of, check_all_there, queues_of, resolved
from kerolox.spark.offsets import Offsets, Place, listed
from kerolox.spark.options import ReadOptions
from kerolox.spark.planning import fair_shares, shares_of_bytes
from kerolox.spark.pulling import DataLost, Unreadable
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.5


class Horizon:
    """How far one may read now. It lives as long as the query does, in the process that plans for it."""

    def __init__(
        self,
        options: ReadOptions,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self.now = now
        self.pause = pause
        self.cluster = Cluster(options.connect, options.pull_group)
        # As far as was to be read when a query was told to end there; None if it goes on.
        self.target: Offsets | None = None
        self.ends: Offsets = {}
        # Since when queues are not where they should be.
        self._missing: dict[MessageQueue, float] = {}
        # Those of them of which people were told, and those without which a query is to end.
        self._given_up: set[MessageQueue] = set()
        self._last_batch = float("-inf")
        self._told: Offsets = {}

    def aim(self) -> None:
        """Has all that is there now be read, and nothing that comes later."""
        cluster = self.cluster
        self.target = cluster.patiently(lambda: all_of(cluster.ends(queues_of(cluster, self._options))), "queues")

    def after(self, start: Place, *, is_first: bool, is_limited: bool) -> Place | None:
        """Returns where a batch ends that begins at `start`; None if there is none to be run now."""
        if is_first:
            begins, ends = self._first()
        elif self.target is not None:
            begins, ends = self._left(start.offsets)
        else:
            begins, ends = self._next(start)
        new = {queue: offset for queue, offset in begins.items() if queue not in start.offsets}
        places = start.offsets | new
        if self.target is not None:
            # What begins after it has nothing left, and is not shorter than it should be.
            self.target |= {queue: max(offset, self.target[queue]) for queue, offset in new.items()}
        available = {queue: max(ends[queue] - places[queue], 0) for queue in ends}
        if not is_first and not new and not self._is_due(sum(available.values())):
            return None
        taken = self._limited(available, places) if is_limited else available
        self._last_batch = self.now()
        offsets = {queue: offset + taken.get(queue, 0) for queue, offset in places.items()}
        return Place(offsets, new)

    def _first(self) -> tuple[Offsets, Offsets]:
        """Returns where queues begin for a query that has no checkpoint yet, and where they end."""
        if self.target is None:
            firsts, ends = self.cluster.patiently(self._all_there, "offsets")
            self.ends = ends
        else:
            check_all_there(self._options, set(self.target))
            firsts, ends = self._awaited({})
        starts = self.cluster.patiently(lambda: resolved(self.cluster, self._options.start, firsts, ends), "offsets")
        return starts, self._aimed(ends)

    def _all_there(self) -> tuple[Offsets, Offsets]:
        queues = queues_of(self.cluster, self._options)
        check_all_there(self._options, queues)
        return all_of(self.cluster.begins(queues)), all_of(self.cluster.ends(queues))

    def _next(self, start: Place) -> tuple[Offsets, Offsets]:
        """Returns where queues begin that were not there before, and where all end that can be asked."""
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
        return {queue: firsts.offsets[queue] for queue in known if queue not in start.offsets}, known

    # As far as the target

    def _left(self, offsets: Offsets) -> tuple[Offsets, Offsets]:
        """Returns where queues begin that were not there before, and where all end of which something is left."""
        begins, ends = self._awaited(offsets)
        self._tell(offsets)
        self._check_kept(offsets, begins)
        return begins, self._aimed(ends)

    def _awaited(self, offsets: Offsets) -> tuple[Offsets, Offsets]:
        """Waits until all that is left can be read, and returns where those queues begin and end.

        A query that is to end is done when there is nothing new: what is away only now must not look like that.
        """
        assert self.target is not None
        left = {
            queue: max(offsets.get(queue, 0), self.target.get(queue, 0))
            for queue in offsets.keys() | self.target.keys()
            if queue not in self._given_up and offsets.get(queue) != self.target.get(queue)
        }
        if not left:
            return {}, {}
        bounds = self._bounds_in_time(left)
        if not bounds.is_whole:
            self._go_without(bounds, offsets)
        begins, ends = (
            {queue: offset for queue, offset in found.items() if queue not in self._given_up}
            for found in (bounds.begins, bounds.ends)
        )
        self.ends |= ends
        # What was away when the target was set, or shorter than what was read of it, is read as far as it goes now.
        self.target |= {queue: end for queue, end in ends.items() if self.target.get(queue, -1) < offsets.get(queue, 0)}
        return begins, ends

    def _bounds_in_time(self, least: Offsets) -> Bounds:
        """Asks until every queue has answered and is long enough, for as long as retryTimeout says."""
        deadline = self.now() + self._patience_millis / 1000
        said = ""
        while True:
            bounds = bounds_of(self.cluster, self._options, least)
            if bounds.is_whole or self.now() >= deadline:
                return bounds
            if str(bounds) != said:
                said = str(bounds)
                log.warning("%s; what is left to be read is waited for", said)
            self.pause(_PAUSE_SECONDS)

    def _go_without(self, bounds: Bounds, offsets: Offsets) -> None:
        """Gives up what is gone for good if that may be; raises if it may not, or may come back."""
        assert self.target is not None
        if bounds.loss and self._options.fail_on_data_loss:
            raise DataLost(
                f"{bounds.loss}, for {self._patience_millis} ms. If that was meant, set option failOnDataLoss to "
                "false; if its broker takes longer, make retryTimeout longer"
            )
        if bounds.silent:
            raise Unreadable(
                f"{bounds.silence}, for {self._patience_millis} ms. Are servers up? Started again when they are, the "
                "query goes on; if they take longer, make retryTimeout longer"
            )
        log.warning("%s, for %d ms: the query ends without what is gone", bounds.loss, self._patience_millis)
        cut = {queue: bounds.ends[queue] for queue in bounds.short if bounds.ends[queue] >= offsets.get(queue, 0)}
        self.target |= cut
        self._given_up |= bounds.unlisted | (bounds.short.keys() - cut.keys())

    def _aimed(self, ends: Offsets) -> Offsets:
        if self.target is None:
            return ends
        return {queue: min(end, self.target[queue]) for queue, end in ends.items()}

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
