"""Those who wait until what they sent is durable."""

from collections.abc import Sequence

from kerolox.store.log.commit_log import Appended
from kerolox.store.log.promises import Promises


class Noted:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, object]] = []

    def stored(self, first: int, appended: Sequence[Appended], is_durable: bool) -> None:
        self.told.append((first, len(appended), is_durable))

    def refused(self, first: int, count: int, error: Exception) -> None:
        self.told.append((first, count, str(error)))


def places(*ends: int) -> list[Appended]:
    return [Appended(end - 10, end, 0, 0) for end in ends]


async def test_several_are_told_together_once_all_are_durable() -> None:
    promises, senders = Promises(timeout_seconds=60), Noted()
    promises.add(0, places(10, 20, 30), senders)

    promises.settle(30)

    assert (senders.told, len(promises)) == ([(0, 3, True)], 0)


async def test_a_sync_that_began_in_the_midst_of_them_tells_the_first_of_them() -> None:
    promises, senders = Promises(timeout_seconds=60), Noted()
    promises.add(0, places(10, 20, 30), senders)

    promises.settle(9)
    promises.settle(20)

    assert (senders.told, len(promises)) == ([(0, 2, True)], 1)

    promises.fail(ValueError("no more"))

    assert senders.told[1:] == [(2, 1, "no more")]


async def test_who_waited_long_enough_is_told_so() -> None:
    promises, senders = Promises(timeout_seconds=0), Noted()
    promises.add(4, places(10), senders)

    promises._expire()

    assert senders.told == [(4, 1, False)]
