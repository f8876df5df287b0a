"""How many requests of one kind may wait at once before the next is turned away."""

from kerolox.errors import SystemBusy


class Lane:
    """A bound on requests under way; where Java has a thread pool with a queue, we have a lane."""

    __slots__ = ("capacity", "name", "under_way")

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.under_way = 0

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
