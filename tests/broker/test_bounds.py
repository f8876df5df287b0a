"""How much of what clients say is kept."""

import pytest

from kerolox.broker.bounds import check_name, size_of
from kerolox.broker.errors import InvalidParameter
from kerolox.wire.bodies.clients import SubscriptionData


def test_a_name_has_an_end_and_the_refusal_does_not_repeat_it() -> None:
    check_name("group", None)
    check_name("group", "ü" * 255)

    with pytest.raises(InvalidParameter) as refused:
        check_name("group", "ü" * 256)

    assert "group of 256 characters, at most 255 allowed" in str(refused.value)
    assert "ü" not in str(refused.value)


def test_all_that_a_subscription_carries_counts() -> None:
    plain = size_of([SubscriptionData(topic="orders")])

    for more in (
        SubscriptionData(topic="orders", sub_string="x" * 1000),
        SubscriptionData(topic="orders", filter_class_source="x" * 1000),
        SubscriptionData(topic="orders", expression_type="x" * 1003),
        SubscriptionData(topic="orders", tags_set=["x" * 968]),
        SubscriptionData(topic="o" * 1006),
    ):
        assert size_of([more]) == plain + 1000
    assert size_of([SubscriptionData(topic="orders", code_set=list(range(1000)))]) > plain + 8000
    assert size_of([SubscriptionData(topic="orders")] * 3) == 3 * plain
