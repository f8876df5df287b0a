"""Progress of groups, and resetting their offsets."""

import re

import pytest

from kerolox.admin.sync import AdminClient
from kerolox.client.sync import PushConsumer
from kerolox.wire.bodies.queues import MessageQueue
from tests.cli.admin.tools import ORDERS, SHOP, Tool, rows

FIRST, SECOND = (MessageQueue("broker-a", number, ORDERS) for number in range(2))


@pytest.fixture(autouse=True)
def committed(consumed: None, client: AdminClient) -> None:
    """The group has consumed 3 of 3 messages of the first queue, and 1 of 3 of the second."""
    client.offsets.commit(SHOP, FIRST, 3)
    client.offsets.commit(SHOP, SECOND, 1)


def test_the_progress_of_a_group_is_printed_by_queue(tool: Tool) -> None:
    printed = tool("consumerProgress", "-g", SHOP)

    found = [row for row in rows(printed) if row and row[0] == ORDERS]
    assert [row[:6] for row in found] == [
        [ORDERS, "broker-a", "0", "3", "3", "0"],
        [ORDERS, "broker-a", "1", "3", "1", "2"],
    ]
    assert "\nConsume TPS: " in printed
    assert printed.endswith("\nDiff Total: 2\n")
    assert tool.json("consumerProgress", "-g", SHOP)[-1]["diffTotal"] == 2


def test_the_progress_can_include_client_ips(tool: Tool, consumer: PushConsumer) -> None:
    heading = tool("consumerProgress", "-g", SHOP, "-s", "true").splitlines()[0]

    assert "#Client IP" in heading


def test_groups_are_summarized_in_one_line_each(tool: Tool) -> None:
    assert [SHOP, "0", "OFFLINE", "0", "2"] in rows(tool("consumerProgress"))


def test_online_groups_are_listed_with_their_release(tool: Tool, consumer: PushConsumer) -> None:
    row = next(row for row in rows(tool("consumerProgress")) if row[0] == SHOP)

    assert row[:5] == [SHOP, "1", "V5_5_0", "PUSH", "CLUSTERING"]


def test_a_group_without_offsets_has_no_progress(tool: Tool) -> None:
    assert "'nobody' has no offsets" in tool.fails("consumerProgress", "-g", "nobody")


def test_offsets_of_an_offline_group_are_reset_and_shown(tool: Tool, client: AdminClient) -> None:
    first, *_, last = tool("resetOffsetByTime", "-g", SHOP, "-t", ORDERS, "-s", "0").splitlines()

    assert first == (
        "rollback consumer offset by specified consumerGroup[shop], topic[orders], force[true], "
        "timestamp(string)[0], timestamp(long)[0]"
    ) or first.startswith("rollback consumer offset by specified group[shop]")
    assert client.offsets.committed(SHOP, SECOND) == 0
    assert last.split()[0] == "broker-a"


def test_a_time_may_be_in_javas_format(tool: Tool) -> None:
    printed = tool("resetOffsetByTime", "-g", SHOP, "-t", ORDERS, "-s", "1970-01-02#00:00:00:000")

    assert "timestamp(string)[1970-01-02#00:00:00:000]" in printed
    assert "is not a time" in tool.run("resetOffsetByTime", "-g", SHOP, "-t", ORDERS, "-s", "noon").stderr


def test_accumulated_messages_are_skipped(tool: Tool, client: AdminClient) -> None:
    tool("skipAccumulatedMessage", "-g", SHOP, "-t", ORDERS)

    assert client.offsets.committed(SHOP, SECOND) == 3


def test_resetting_an_unknown_group_is_an_error(tool: Tool) -> None:
    assert "nobody" in tool.fails("resetOffsetByTime", "-g", "nobody", "-t", ORDERS, "-s", "0")


def test_offsets_are_cloned_from_another_group(tool: Tool, client: AdminClient) -> None:
    client.groups.create("twin")

    printed = tool("cloneGroupOffset", "-s", SHOP, "-d", "twin", "-t", ORDERS)

    assert printed == "clone group offset success. srcGroup[shop], destGroup=[twin], topic[orders]"
    assert [client.offsets.committed("twin", queue) for queue in (FIRST, SECOND)] == [3, 1]


def test_the_progress_can_be_limited_to_one_topic(tool: Tool) -> None:
    printed = tool("consumerProgress", "-g", SHOP, "-t", ORDERS)

    assert {row[0] for row in rows(printed)[:2]} == {ORDERS}
    assert "%RETRY%" not in printed


def test_the_offset_of_one_queue_is_reset(tool: Tool, client: AdminClient) -> None:
    queue = ("-g", SHOP, "-t", ORDERS, "-b", tool.broker_addr, "-q", "1")

    to_offset = tool("resetOffsetByTime", *queue, "-s", "now", "-o", "2")
    offset = client.offsets.committed(SHOP, SECOND)
    to_end = tool("resetOffsetByTime", *queue, "-s", "now")
    to_time = tool("resetOffsetByTime", *queue, "-s", "0")

    assert re.search(r"timestamp\(string\)\[now\], timestamp\(long\)\[\d{13}\]\nreset .* to 2\n$", to_offset)
    assert offset == 2
    assert to_end.endswith("reset consumer offset to 3\n")
    assert to_time.endswith("reset consumer offset to 0\n")
    assert client.offsets.committed(SHOP, FIRST) == 3
