"""Ordered popping: the table in memory and in the file of Java."""

from pathlib import Path

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pop.order_info import EXPIRY_MILLIS, OrderInfos, OrderTable
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from tests.golden import pop as golden

POPPED = 1_700_000_000_123


def create_orders(tmp_path: Path) -> tuple[OrderInfos, ManualClock]:
    clock = ManualClock(POPPED)
    return OrderInfos(BrokerConfig(), RealDisk(), tmp_path, clock), clock


def pop_first(orders: OrderInfos) -> str:
    return orders.popped("first", "orders", "readers", 2, POPPED, 60_000, [40, 41, 44])


async def test_the_saved_table_equals_that_of_java(tmp_path: Path) -> None:
    orders, clock = create_orders(tmp_path)
    assert pop_first(orders) == "0 2 0"
    orders.change_visible_time("orders", "readers", 2, 41, POPPED, 1_700_000_009_000)
    assert orders.acked("orders", "readers", 2, 40, POPPED) == 41
    orders.table["orders@readers"][2].last_consumed = POPPED + 1
    assert orders.serialized().encode().decode() == golden.load()["order"]

    await clock.advance(60.001)
    counts = orders.popped("second", "orders", "readers", 2, POPPED + 60_000, 60_000, [41, 44, 45])

    assert counts == golden.load()["order-count"]
    assert orders.serialized().encode().decode() == golden.load()["order-again"]


async def test_the_table_of_java_is_loaded_and_saved_unchanged(tmp_path: Path) -> None:
    orders, clock = create_orders(tmp_path)
    orders.table = OrderTable.decode(golden.load()["order"].encode()).table
    orders.file.changed()
    await orders.file.save()

    again = OrderInfos(BrokerConfig(), RealDisk(), tmp_path, clock)
    again.load()

    assert again.table == orders.table
    assert again.blocked_until(None, "orders", "readers", 2, 0) == POPPED + 60_000


async def test_a_queue_is_blocked_until_the_last_of_its_messages_is_visible(tmp_path: Path) -> None:
    orders, clock = create_orders(tmp_path)
    pop_first(orders)

    assert orders.blocked_until("first", "orders", "readers", 2, 0) == 0
    assert orders.blocked_until("other", "orders", "readers", 2, 0) == POPPED + 60_000
    orders.change_visible_time("orders", "readers", 2, 44, POPPED, POPPED + 90_000)
    assert orders.blocked_until(None, "orders", "readers", 2, 0) == POPPED + 90_000
    orders.acked("orders", "readers", 2, 44, POPPED)
    await clock.advance(60.1)

    assert orders.blocked_until(None, "orders", "readers", 2, 0) == 0


def test_acks_of_other_pops_and_unknown_offsets_have_different_results(tmp_path: Path) -> None:
    orders, _ = create_orders(tmp_path)
    pop_first(orders)

    assert orders.acked("orders", "readers", 2, 43, POPPED) == -1
    assert orders.acked("orders", "readers", 2, 41, POPPED - 5) == -2
    assert orders.acked("orders", "readers", 2, 41, POPPED) == 40
    assert orders.acked("orders", "readers", 2, 40, POPPED) == 44
    assert orders.acked("orders", "readers", 2, 44, POPPED) == 45
    assert orders.acked("orders", "readers", 3, 7, POPPED) == 8


async def test_unused_entries_are_removed_after_a_day(tmp_path: Path) -> None:
    orders, clock = create_orders(tmp_path)
    pop_first(orders)

    await clock.advance(EXPIRY_MILLIS / 1000 + 1)

    assert orders.serialized().table == {}


def test_entries_of_a_deleted_topic_or_group_are_removed(tmp_path: Path) -> None:
    orders, _ = create_orders(tmp_path)
    for topic, group in (("orders", "readers"), ("orders", "others"), ("more", "readers")):
        orders.popped(None, topic, group, 0, POPPED, 1, [1])

    orders.delete_topic("more")
    orders.delete_group("others")
    orders.clear("orders", "readers", 0)

    assert orders.table == {"orders@readers": {}}
