"""Admission: a limit on the requests of one kind that are under way at once."""

from kerolox.errors import SystemBusy

# Limit on the parked requests of one queue.
PARKED_MAX = 200_000


class RequestQueue:
    """Counts the requests under way and refuses more than `capacity`, as the queue of a thread pool does in Java.

    A request that only waits for an event (a long poll) is parked: it does not count against the capacity.
    """

    __slots__ = ("capacity", "name", "parked", "parked_max", "under_way")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.under_way = 0
        self.parked = 0
        self.parked_max = PARKED_MAX

    def enter(self) -> None:
        """Admit one more request; SystemBusy if the queue is full."""
        self.check()
        self.under_way += 1

    def check(self) -> None:
        """Raise SystemBusy if the queue is full."""
        if self.under_way >= self.capacity:
            raise SystemBusy(
                f"[OVERLOAD]system busy, {self.under_way} requests under way in queue {self.name!r}, "
                f"at most {self.capacity} admitted"
            )

    def leave(self) -> None:
        assert self.under_way > 0
        self.under_way -= 1

    def park(self) -> None:
        """Park a request that is under way until `resume`; SystemBusy if too many are parked."""
        if self.parked >= self.parked_max:
            raise SystemBusy(
                f"[OVERLOAD]system busy, {self.parked} requests wait in queue {self.name!r}, "
                f"at most {self.parked_max} may"
            )
        self.leave()
        self.parked += 1

    def resume(self) -> None:
        """Count a parked request as under way again, even if the queue is full: it was admitted before."""
        assert self.parked > 0
        self.parked -= 1
        self.under_way += 1
