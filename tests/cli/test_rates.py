"""What has moved between two looks."""

from kerolox.admin import BrokerStatus
from kerolox.cli.rates import Look, broker_rows, group_rows, topic_rows
from kerolox.errors import ConnectFailed

BEFORE = Look(10.0, [], {"orders": 100, "bills": 5}, {("shop", "orders"): (50, 50), ("slow", "orders"): (10, 90)})
NOW = Look(
    12.0,
    [
        BrokerStatus("c", "broker-a", 0, "a:1", {"putTps": "2.5 1 1", "commitLogDiskRatio": "0.42"}),
        BrokerStatus("c", "broker-b", 0, "b:1", {}, ConnectFailed("refused")),
    ],
    {"orders": 120, "bills": 5, "new": 7},
    {("shop", "orders"): (110, 10), ("slow", "orders"): (10, 110), ("late", "new"): (7, 0)},
    {"shop": 2},
)


def test_topics_are_listed_by_what_is_written_to_them() -> None:
    assert topic_rows(BEFORE, NOW) == [("orders", 10.0, 120), ("bills", 0.0, 5), ("new", 0.0, 7)]


def test_groups_are_listed_by_what_waits_for_them_and_when_they_will_be_done() -> None:
    assert group_rows(BEFORE, NOW) == [
        ("slow", "orders", 0, 0.0, 110, "never"),
        ("shop", "orders", 2, 30.0, 10, "0 s"),
        ("late", "new", 0, 0.0, 0, ""),
    ]


def test_a_group_that_was_set_back_has_no_rate() -> None:
    earlier = Look(12.0, places={("shop", "orders"): (5, 105)})

    assert group_rows(Look(10.0, places={("shop", "orders"): (50, 50)}), earlier)[0][3] == 0.0


def test_a_broker_that_does_not_answer_is_listed() -> None:
    one, other = broker_rows(NOW)

    assert (one[0], one[3], one[5]) == ("broker-a/0", 2.5, "42%")
    assert other[2] == "does not answer"
