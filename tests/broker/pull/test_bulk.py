"""Admission of bulk pulls."""

from typing import cast

from kerolox.broker.pull.bulk import READERS_MAX, BulkPulls
from kerolox.remoting.connection import Connection
from kerolox.store.config import StoreConfig

MIB = 1024 * 1024


class Reader:
    """The attributes of a connection that BulkPulls uses."""

    def __init__(self, unsent_size: int = 0) -> None:
        self.unsent_size = unsent_size
        self.is_closed = False


def _admits(bulk: BulkPulls, reader: Reader, bytes_asked: int = 4 * MIB) -> bool:
    return bulk.admits(cast("Connection", reader), bytes_asked)


def test_a_pull_that_asks_for_an_ordinary_size_is_not_bulk() -> None:
    assert not _admits(BulkPulls(StoreConfig()), Reader(), 256 * 1024)


def test_no_bulk_pull_is_admitted_while_too_much_is_unsent() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_max=4 * MIB, bulk_pull_bytes_pending_max=10 * MIB))
    slow, slower = Reader(), Reader()
    assert _admits(bulk, slow)
    slow.unsent_size = 4 * MIB
    assert _admits(bulk, slower)
    slower.unsent_size = 4 * MIB

    assert not _admits(bulk, Reader())

    slow.unsent_size = 0
    assert _admits(bulk, Reader())


def test_unsent_bytes_of_closed_connections_do_not_count() -> None:
    bulk = BulkPulls(StoreConfig(bulk_pull_bytes_pending_max=5 * MIB))
    closed = Reader()
    assert _admits(bulk, closed)
    closed.unsent_size, closed.is_closed = 4 * MIB, True

    assert _admits(bulk, Reader())


def test_the_number_of_bulk_readers_is_limited() -> None:
    bulk = BulkPulls(StoreConfig())
    for _ in range(READERS_MAX):
        assert _admits(bulk, Reader(1))

    assert not _admits(bulk, Reader())
