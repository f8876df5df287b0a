"""How many requests of one kind may wait at once before the next is turned away."""

from kerolox.errors import SystemBusy

# How many requests of a lane may wait for something to happen.
PARKED_MAX = 200_000


class Lane:
    """A bound on requests under way; where Java has a thread pool with a queue, we have a lane.

    A request that only waits for something to happen is parked: it takes no place from those who have work to do.
    """

    __slots__ = ("capacity", "name", "parked", "parked_max", "under_way")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.under_way = 0
        self.parked = 0
        self.parked_max = PARKED_MAX

    def enter(self) -> None:
        """Admits one more request, or raises SystemBusy in the words a Java client knows."""
        self.check()
        self.under_way += 1

    def check(self) -> None:
        """SystemBusy if no more would be admitted."""
        if self.under_way >= self.capacity:
            raise SystemBusy(
                f"[OVERLOAD]system busy, {self.under_way} requests under way in lane {self.name!r}, "
                f"at most {self.capacity} admitted"
            )

    def leave(self) -> None:
        assert self.under_way > 0
        self.under_way -= 1

    def park(self) -> None:
        """Sets one that is under way aside until it is resumed; SystemBusy if too many are."""
        if self.parked >= self.parked_max:
            raise SystemBusy(
                f"[OVERLOAD]system busy, {self.parked} requests wait in lane {self.name!r}, "
                f"at most {self.parked_max} may"
            )
        self.leave()
        self.parked += 1

    def resume(self) -> None:
        """Takes it back, even if the lane is full by now: it was admitted once."""
        assert self.parked > 0
        self.parked -= 1
        self.under_way += 1
