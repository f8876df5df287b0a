"""How far a stream reads: where each batch ends, and what is to be done where queues are not as they were."""

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

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


class Ahead(NamedTuple):
    """What may be read next: up to `ends`. `begins` is where queues do that are new, `anew` where such as were not."""

    begins: Offsets
    ends: Offsets
    anew: Offsets


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
        # Since when queues are gone, or (True) shorter than what was read of them.
        self._missing: dict[tuple[MessageQueue, bool], float] = {}
        # Those that are gone and of which people were told.
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
            begins, ends, anew = self._first()
        elif self.target is not None:
            begins, ends, anew = self._left(start.offsets)
        else:
            begins, ends, anew = self._next(start.offsets)
        new = {queue: offset for queue, offset in begins.items() if queue not in start.offsets}
        places = start.offsets | new | anew
        if self.target is not None:
            # What begins after it has nothing left, and is not shorter than it should be.
            self.target |= {queue: max(offset, self.target[queue]) for queue, offset in new.items()}
        available = {queue: max(ends[queue] - places[queue], 0) for queue in ends}
        if not is_first and not new and not anew and not self._is_due(sum(available.values())):
            return None
        taken = self._limited(available, places) if is_limited else available
        self._last_batch = self.now()
        offsets = {queue: offset + taken.get(queue, 0) for queue, offset in places.items()}
        return Place(offsets, new, anew)

    def _first(self) -> Ahead:
        """Returns where queues begin for a query that has no checkpoint yet, and where they end."""
        if self.target is None:
            firsts, ends = self.cluster.patiently(self._all_there, "offsets")
            self.ends = ends
        else:
            check_all_there(self._options, set(self.target))
            firsts, ends, _ = self._awaited({})
        starts = self.cluster.patiently(lambda: resolved(self.cluster, self._options.start, firsts, ends), "offsets")
        return Ahead(starts, self._aimed(ends), {})

    def _all_there(self) -> tuple[Offsets, Offsets]:
        queues = queues_of(self.cluster, self._options)
        check_all_there(self._options, queues)
        return all_of(self.cluster.begins(queues)), all_of(self.cluster.ends(queues))

    def _next(self, offsets: Offsets) -> Ahead:
        """Returns where queues begin that were not there before, and where all end that can be asked."""
        try:
            queues = queues_of(self.cluster, self._options)
        except KeroloxError as error:
            # Brokers come back; until then there is nothing new.
            log.warning("which queues there are is not known now: %s", error)
            self._missing = {}
            return Ahead({}, {}, {})
        self._tell(offsets)
        ends, firsts = self.cluster.ends(queues), self.cluster.begins(queues)
        for queue, reason in ends.failed.items():
            log.warning("where %s ends is not known now: %s", listed([queue]), reason)
        known = {queue: end for queue, end in ends.offsets.items() if queue in firsts.offsets}
        self.ends |= known
        self._check_kept(offsets, firsts.offsets)
        short = {queue for queue, end in known.items() if end < offsets.get(queue, 0)}
        late = self._check_missing(set(offsets) - queues, short)
        anew = self._begun_anew({queue: firsts.offsets[queue] for queue in late & short})
        return Ahead({queue: firsts.offsets[queue] for queue in known if queue not in offsets}, known, anew)

    # As far as the target

    def _left(self, offsets: Offsets) -> Ahead:
        """Returns where queues begin that were not there before, and where all end of which something is left."""
        begins, ends, anew = self._awaited(offsets)
        self._tell(offsets)
        self._check_kept(offsets, begins)
        return Ahead(begins, self._aimed(ends), anew)

    def _awaited(self, offsets: Offsets) -> Ahead:
        """Waits until all that is left can be read, and returns where those queues begin and end.

        A query that is to end is done when there is nothing new: what is away only now must not look like that.
        """
        assert self.target is not None
        away = offsets.keys() - self.target.keys() - self._given_up
        if away and not self._options.fail_on_data_loss:
            # A checkpoint keeps them for ever, and not every run should wait for brokers that will never be back.
            log.warning("%s: not there when the query began, which ends without it", listed(away))
            self._given_up |= away
        left = {
            queue: max(offsets.get(queue, 0), self.target.get(queue, 0))
            for queue in offsets.keys() | self.target.keys()
            if queue not in self._given_up and offsets.get(queue) != self.target.get(queue)
        }
        if not left:
            return Ahead({}, {}, {})
        bounds = self._bounds_in_time(left)
        anew = {} if bounds.is_whole else self._go_without(bounds, offsets)
        begins, ends = bounds.begins, bounds.ends
        self.ends |= ends
        # What was away when the target was set, or shorter than what was read of it, is read as far as it goes now.
        self.target |= {queue: end for queue, end in ends.items() if self.target.get(queue, -1) < offsets.get(queue, 0)}
        return Ahead(begins, ends, anew)

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

    def _go_without(self, bounds: Bounds, offsets: Offsets) -> Offsets:
        """Gives up what is gone for good if that may be, and returns where queues begin anew.

        Raises if losses may not be, or if it is not known whether there are any.
        """
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
        self._given_up |= bounds.unlisted
        # What was to be read and is not there any more is not waited for again.
        self.target |= {queue: bounds.ends[queue] for queue in bounds.short}
        is_anew = [queue for queue in bounds.short if bounds.ends[queue] < offsets.get(queue, 0)]
        return self._begun_anew({queue: bounds.begins[queue] for queue in is_anew})

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

    def _check_missing(self, gone: set[MessageQueue], short: set[MessageQueue]) -> set[MessageQueue]:
        """Returns queues that have not been there for too long; DataLost if there are any and losses may not be.

        A broker that starts again is away for a while, and a replica that takes over may have to catch up.
        """
        now, since = self.now(), self._missing
        states = [(queue, False) for queue in gone] + [(queue, True) for queue in short]
        self._missing = {state: since.get(state, now) for state in states}
        late = {queue for (queue, _), then in self._missing.items() if (now - then) * 1000 >= self._patience_millis}
        if late and self._options.fail_on_data_loss:
            raise DataLost(
                f"{listed(late)}: gone, or shorter than what was read of it, for {self._patience_millis} ms. If that "
                "was meant, set option failOnDataLoss to false; if its broker takes longer, make retryTimeout longer"
            )
        if not late & gone <= self._given_up:
            log.warning("%s: gone, and so read no further", listed(late & gone))
        self._given_up = late & gone
        return late

    @staticmethod
    def _begun_anew(begins: Offsets) -> Offsets:
        """Returns them, and says so: such queues have been deleted and made again, as far as one can tell."""
        if begins:
            log.warning("%s: shorter than what was read of it, and so read from its first message on", listed(begins))
        return begins

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
