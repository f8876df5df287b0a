"""How long a master may go on without hearing of its group."""

from kerolox.runtime.clock import Clock


class MasterDeadline:
    """Ends a mastership that nobody has confirmed for too long; `Term.may_acknowledge` of a master.

    A master that is cut off may have been replaced. Its sync state set keeps it from acknowledging what its successor
    lacks; the deadline also keeps it from writing and serving. Time is counted from when a request was sent, not from
    its answer: an answer that was read after a freeze says how things were before it.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._confirmed = clock.monotonic()

    def confirm(self, sent: float) -> None:
        """Note the answer to a request that was sent at this monotonic time, or a report of a member of the set."""
        self._confirmed = max(self._confirmed, sent)

    def has_passed(self) -> bool:
        return self._clock.monotonic() - self._confirmed > self._seconds

    def may_acknowledge(self) -> bool:
        return not self.has_passed()
