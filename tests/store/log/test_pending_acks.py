"""PendingAcks: acknowledging sends when they are durable or time out."""

from collections.abc import Sequence

from kerolox.store.log.commit_log import Appended
from kerolox.store.log.pending_acks import AckStatus, PendingAcks


class RecordingSenders:
    def __init__(self) -> None:
        self.reports: list[tuple[int, int, object]] = []

    def stored(self, first: int, appended: Sequence[Appended], status: AckStatus) -> None:
        self.reports.append((first, len(appended), status))

    def refused(self, first: int, count: int, error: Exception) -> None:
        self.reports.append((first, count, str(error)))


def appended(*ends: int) -> list[Appended]:
    return [Appended(end - 10, end, 0, 0) for end in ends]


async def test_several_messages_are_acknowledged_together_once_all_are_durable() -> None:
    pending, senders = PendingAcks(timeout_seconds=60), RecordingSenders()
    pending.add(0, appended(10, 20, 30), senders)

    pending.acknowledge(30)

    assert (senders.reports, len(pending)) == ([(0, 3, AckStatus.OK)], 0)


async def test_a_sync_that_covers_some_messages_acknowledges_only_those() -> None:
    pending, senders = PendingAcks(timeout_seconds=60), RecordingSenders()
    pending.add(0, appended(10, 20, 30), senders)

    pending.acknowledge(9)
    pending.acknowledge(20)

    assert (senders.reports, len(pending)) == ([(0, 2, AckStatus.OK)], 1)

    pending.fail(ValueError("no more"))

    assert senders.reports[1:] == [(2, 1, "no more")]


async def test_after_the_timeout_messages_are_reported_with_the_timeout_status() -> None:
    pending, senders = PendingAcks(timeout_seconds=0), RecordingSenders()
    pending.add(4, appended(10), senders)

    pending._expire()

    assert senders.reports == [(4, 1, AckStatus.FLUSH_DISK_TIMEOUT)]
