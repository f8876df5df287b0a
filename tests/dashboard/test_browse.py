from collections.abc import Sequence

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message
from kerolox.dashboard import browse
from kerolox.dashboard.browse import Row, newest
from kerolox.testing import Cluster
from tests.dashboard import filling


def row(queue_id: int, queue_offset: int, stored_millis: int) -> Row:
    return Row("orders", "broker-a", queue_id, queue_offset, "", "", "", stored_millis, 0, 0, "")


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        ([[(0, 10), (1, 30)], [(0, 20), (1, 40)]], [(1, 1), (0, 1), (1, 0)]),
        # A clock was set back: what lies last in a queue still comes first of it.
        ([[(0, 99), (1, 5)], [(0, 20)]], [(1, 0), (0, 1), (0, 0)]),
        ([[], [(7, 1)]], [(1, 7)]),
        ([], []),
    ],
    ids=["in turn", "set back", "one empty", "none"],
)
def test_the_newest_of_several_queues_are_taken_from_their_ends(
    parts: Sequence[Sequence[tuple[int, int]]], places: list[tuple[int, int]]
) -> None:
    rows = [[row(number, offset, millis) for offset, millis in part] for number, part in enumerate(parts)]

    found = browse._merged(rows, 3)

    assert [(it.queue_id, it.queue_offset) for it in found] == places


async def test_pages_between_two_times_have_each_message_once(cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    await filling.send(cluster.namesrv_addr, *(Message("orders", b"%d" % number) for number in range(25)))
    times = sorted([message.stored_millis async for message in admin.messages.read_topic("orders")])

    seen: list[Row] = []
    cursor: str | None = ""
    while cursor is not None:
        found = await newest(admin, "orders", times[0], times[-1], cursor, size=10)
        seen += found.rows
        cursor = found.cursor

    assert sorted(int(it.preview) for it in seen) == list(range(25))
    assert [it.stored_millis for it in seen] == sorted((it.stored_millis for it in seen), reverse=True)
    assert (await newest(admin, "orders", times[-1] + 1, None)).rows == []
    assert (await newest(admin, "orders", None, times[0] - 1)).rows == []
