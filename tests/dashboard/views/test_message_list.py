from collections.abc import Sequence

import pytest

from kerolox.admin import AdminClient
from kerolox.client import Message
from kerolox.dashboard.views import message_list
from kerolox.dashboard.views.message_list import Row, newest_messages
from kerolox.testing import Cluster
from tests.dashboard import filling


def row(queue_id: int, queue_offset: int, stored_millis: int) -> Row:
    return Row("orders", "broker-a", queue_id, queue_offset, "", "", "", stored_millis, 0, 0, "")


@pytest.mark.parametrize(
    ("parts", "locations"),
    [
        ([[(0, 10), (1, 30)], [(0, 20), (1, 40)]], [(1, 1), (0, 1), (1, 0)]),
        # A clock was set back: the last message of a queue still comes before the others of that queue.
        ([[(0, 99), (1, 5)], [(0, 20)]], [(1, 0), (0, 1), (0, 0)]),
        ([[], [(7, 1)]], [(1, 7)]),
        ([], []),
    ],
    ids=["interleaved", "set back", "one empty", "none"],
)
def test_the_newest_rows_are_merged_from_the_ends_of_the_queues(
    parts: Sequence[Sequence[tuple[int, int]]], locations: list[tuple[int, int]]
) -> None:
    rows = [[row(number, offset, millis) for offset, millis in part] for number, part in enumerate(parts)]

    found = message_list._merge_newest(rows, 3)

    assert [(it.queue_id, it.queue_offset) for it in found] == locations


async def test_pages_between_two_times_contain_each_message_once(cluster: Cluster, admin: AdminClient) -> None:
    await admin.topics.create("orders", read_queues=2, write_queues=2)
    await filling.send(cluster.namesrv_addr, *(Message("orders", b"%d" % number) for number in range(25)))
    times = sorted([message.stored_millis async for message in admin.messages.read_topic("orders")])

    seen: list[Row] = []
    cursor: str | None = ""
    while cursor is not None:
        found = await newest_messages(admin, "orders", times[0], times[-1], cursor, size=10)
        seen += found.rows
        cursor = found.cursor

    assert sorted(int(it.preview) for it in seen) == list(range(25))
    assert [it.stored_millis for it in seen] == sorted((it.stored_millis for it in seen), reverse=True)
    assert (await newest_messages(admin, "orders", times[-1] + 1, None)).rows == []
    assert (await newest_messages(admin, "orders", None, times[0] - 1)).rows == []
