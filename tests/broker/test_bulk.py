"""Who may pull in bulk."""

from typing import cast

from kerolox.broker.bulk import READERS_MAX, BulkPulls
from kerolox.remoting.connection import Connection
from kerolox.store.configuration import StoreConfig

MIB = 1024 * 1024


class Reader:
    """As much of a connection as matters here."""

    def __init__(self, unsent_size: int = 0) -> None:
        self.unsent_size = unsent_size
        self.is_closed = False


def _admits(bulk: BulkPulls, reader: Reader, bytes_asked: int = 4 * MIB) -> bool:
    return bulk.admits(cast("Connection", reader), bytes_asked)


def test_who_asks_for_no_more_than_consumers_get_does_not_pull_in_bulk() -> None:
    assert not _admits(BulkPulls(StoreConfig()), Reader(), 256 * 1024)


def test_as_long_as_too_much_lies_unread_nobody_pulls_in_bulk() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_max=4 * MIB, bulk_pull_bytes_pending_max=10 * MIB))
    slow, slower = Reader(), Reader()
    assert _admits(bulk, slow)
    slow.unsent_size = 4 * MIB
    assert _admits(bulk, slower)
    slower.unsent_size = 4 * MIB

    assert not _admits(bulk, Reader())

    slow.unsent_size = 0
    assert _admits(bulk, Reader())


def test_what_was_for_somebody_who_left_does_not_count() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_pending_max=5 * MIB))
    gone = Reader()
    assert _admits(bulk, gone)
    gone.unsent_size, gone.is_closed = 4 * MIB, True

    assert _admits(bulk, Reader())


def test_those_who_read_slowly_are_counted_too() -> None:
    bulk = BulkPulls(StoreConfig())
    for _ in range(READERS_MAX):
        assert _admits(bulk, Reader(1))

    assert not _admits(bulk, Reader())
