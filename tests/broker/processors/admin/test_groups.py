"""Administration of consumer groups."""

import json
from pathlib import Path

import pytest

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.errors import NoPermission, SystemFailure
from kerolox.runtime.files import RealDisk
from kerolox.store.tables import SUBSCRIPTION_GROUP, JsonTable
from kerolox.wire.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from kerolox.wire.headers import broker as h
from tests.broker.brokers import BrokerFixture, running


def saved_groups(directory: Path) -> SubscriptionGroupTable:
    table = JsonTable(RealDisk(), directory / "config" / SUBSCRIPTION_GROUP, SubscriptionGroupTable).load()
    assert table is not None
    return table


async def test_a_created_group_is_saved_before_the_response(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        # The format of mqadmin 4.9.
        body = b'{"brokerId":0,"consumeEnable":true,"groupName":"g","retryMaxTimes":3,"retryQueueNums":2}'
        await broker.call(h.UpdateAndCreateSubscriptionGroup(), body)

        group = saved_groups(tmp_path).subscription_group_table["g"]
        assert (group.retry_max_times, group.retry_queue_nums, group.consume_broadcast_enable) == (3, 2, True)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "The specified group is blank."),
        ("no good", "contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("../escape", "contains illegal characters"),
        ("g" * 121, "is longer than group max length: 120"),
    ],
)
async def test_invalid_group_names_are_refused(broker: BrokerFixture, name: str, complaint: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        await broker.call(h.UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name=name).encode())

    assert complaint in (refused.value.remark or "")


async def test_a_list_is_created_completely_or_not_at_all(broker: BrokerFixture) -> None:
    good, bad = SubscriptionGroupConfig(group_name="one"), SubscriptionGroupConfig(group_name="no good")
    with pytest.raises(InvalidParameter):
        await broker.call(h.UpdateAndCreateSubscriptionGroupList(), SubscriptionGroupList([good, bad]).encode())
    assert "one" not in broker.broker.groups.groups

    await broker.call(h.UpdateAndCreateSubscriptionGroupList(), SubscriptionGroupList([good]).encode())

    assert broker.broker.groups.groups["one"] == good


async def test_a_group_with_more_retry_queues_than_a_topic_may_have_is_refused(broker: BrokerFixture) -> None:
    requested = SubscriptionGroupConfig(group_name="g", retry_queue_nums=2**31 - 1)

    with pytest.raises(InvalidParameter, match="retryQueueNums=2147483647: from 0 to 65536"):
        await broker.call(h.UpdateAndCreateSubscriptionGroup(), requested.encode())

    assert "g" not in broker.broker.groups.groups


async def test_unknown_attributes_are_refused(broker: BrokerFixture) -> None:
    requested = SubscriptionGroupConfig(group_name="g", attributes={"+odd": "1"})
    with pytest.raises(SystemFailure, match="unsupported key: odd"):
        await broker.call(h.UpdateAndCreateSubscriptionGroup(), requested.encode())


async def test_all_groups_are_listed_at_once_or_in_pages(tmp_path: Path) -> None:
    async with running(tmp_path, splitMetadataSize="3") as broker:
        broker.broker.groups.forbid_reading("TOOLS_CONSUMER", "t", is_forbidden=True)
        reply = await broker.call(h.GetAllSubscriptionGroupConfig())
        table = SubscriptionGroupTable.decode(reply.body)
        assert table.subscription_group_table == broker.broker.groups.groups
        assert reply.fields.total_group_num == len(table.subscription_group_table)
        assert table.forbidden_table == {"TOOLS_CONSUMER": {"t": 4}}

        version = table.data_version.encode().decode()
        request = h.GetAllSubscriptionGroupConfig(group_seq=0, data_version=version, max_group_num=9)
        piece = SubscriptionGroupTable.decode((await broker.call(request)).body)
        assert list(piece.subscription_group_table) == sorted(table.subscription_group_table)[:3]
        assert piece.forbidden_table == {}


async def test_a_group_is_returned_or_code_26(tmp_path: Path) -> None:
    async with running(tmp_path, autoCreateSubscriptionGroup="false") as broker:
        reply = await broker.call(h.GetSubscriptionGroupConfig(group="TOOLS_CONSUMER"))

        assert json.loads(reply.body)["groupName"] == "TOOLS_CONSUMER"
        with pytest.raises(GroupNotFound, match="No group in this broker"):
            await broker.call(h.GetSubscriptionGroupConfig(group="unknown"))


@pytest.mark.parametrize(("fields", "left"), [({}, 1), ({"clean_offset": True}, None), ({"remove_offset": True}, None)])
async def test_deleting_a_group_deletes_its_offsets_on_request(
    tmp_path: Path, fields: dict[str, bool], left: int | None
) -> None:
    async with running(tmp_path) as broker:
        await broker.call(h.UpdateAndCreateSubscriptionGroup(), SubscriptionGroupConfig(group_name="g").encode())
        broker.broker.offsets.commit("g", "orders", 0, 1)
        broker.broker.offsets.commit("other", "orders", 0, 2)
        for group in ("g", "other"):
            broker.broker.statistics.got("orders", group, 3, 100, 0.0)
            broker.broker.pop.orders.popped("", "orders", group, 0, 0, 1000, [0])
            broker.broker.slow_consumers.pulled("orders", group, 0, 0, 1)

        await broker.call(h.DeleteSubscriptionGroup(group_name="g", **fields))

        assert "g" not in saved_groups(tmp_path).subscription_group_table
        assert broker.broker.offsets.get("g", "orders", 0) == left
        assert broker.broker.offsets.get("other", "orders", 0) == 2
        assert [broker.counted("GROUP_GET_NUMS", f"orders@{group}") for group in ("g", "other")] == [0, 3]
        assert list(broker.broker.pop.orders.table) == ["orders@other"]
        assert broker.broker.slow_consumers.bytes_behind("orders", "g", 0) is None
        assert broker.broker.slow_consumers.bytes_behind("orders", "other", 0) == 0


async def test_a_topic_can_be_forbidden_to_a_group_and_allowed_again(tmp_path: Path) -> None:
    async def set_readable(broker: BrokerFixture, readable: bool | None) -> bool:
        request = h.UpdateAndGetGroupForbidden(group="group", topic="orders", readable=readable)
        return GroupForbidden.decode((await broker.call(request)).body).readable

    async with running(tmp_path) as broker:
        await broker.send("orders", b"body")
        assert await set_readable(broker, None)
        assert not await set_readable(broker, readable=False)
        with pytest.raises(NoPermission):
            await broker.pull("orders", 0)

    async with running(tmp_path) as broker:
        assert not await set_readable(broker, None)
        assert await set_readable(broker, readable=True)
        assert (await broker.pull("orders", 0)).body
        assert saved_groups(tmp_path).forbidden_table == {}
