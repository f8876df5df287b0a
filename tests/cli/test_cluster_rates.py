"""Rates between two snapshots of a cluster."""

from kerolox.admin import BrokerStatus
from kerolox.cli.cluster_rates import Snapshot, broker_rows, group_rows, topic_rows
from kerolox.errors import ConnectFailed

BEFORE = Snapshot(10.0, [], {"orders": 100, "bills": 5}, {("shop", "orders"): (50, 50), ("slow", "orders"): (10, 90)})
NOW = Snapshot(
    12.0,
    [
        BrokerStatus("c", "broker-a", 0, "a:1", {"putTps": "2.5 1 1", "commitLogDiskRatio": "0.42"}),
        BrokerStatus("c", "broker-b", 0, "b:1", {}, ConnectFailed("refused")),
    ],
    {"orders": 120, "bills": 5, "new": 7},
    {("shop", "orders"): (110, 10), ("slow", "orders"): (10, 110), ("late", "new"): (7, 0)},
    {"shop": 2},
)


def test_topics_are_sorted_by_write_rate() -> None:
    assert topic_rows(BEFORE, NOW) == [("orders", 10.0, 120), ("bills", 0.0, 5), ("new", 0.0, 7)]


def test_groups_are_sorted_by_lag_with_the_time_to_catch_up() -> None:
    assert group_rows(BEFORE, NOW) == [
        ("slow", "orders", 0, 0.0, 110, "never"),
        ("shop", "orders", 2, 30.0, 10, "0 s"),
        ("late", "new", 0, 0.0, 0, ""),
    ]


def test_a_group_whose_offset_was_reset_has_no_rate() -> None:
    earlier = Snapshot(12.0, progress={("shop", "orders"): (5, 105)})

    assert group_rows(Snapshot(10.0, progress={("shop", "orders"): (50, 50)}), earlier)[0][3] == 0.0


def test_an_unreachable_broker_is_listed() -> None:
    one, other = broker_rows(NOW)

    assert (one[0], one[3], one[5]) == ("broker-a/0", 2.5, "42%")
    assert other[2] == "does not answer"
