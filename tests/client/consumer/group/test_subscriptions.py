"""Subscriptions and tag filters."""

import pytest

from kerolox.client.consumer.group.subscriptions import Sql92, TagFilter, build_subscription, expressions
from kerolox.errors import ConfigurationError
from kerolox.message.message import Message


@pytest.mark.parametrize("expression", ["*", "", "  ", " * "])
def test_an_empty_expression_subscribes_to_all(expression: str) -> None:
    subscription = build_subscription("orders", expression, 7)

    assert (subscription.sub_string, subscription.tags_set, subscription.code_set, subscription.expression_type) == (
        "*",
        [],
        [],
        "TAG",
    )
    assert subscription.sub_version == 7


def test_tags_are_separated_by_two_bars() -> None:
    subscription = build_subscription("orders", "TagA || TagB||  TagC  ", 1)

    assert subscription.tags_set == ["TagA", "TagB", "TagC"]
    assert subscription.code_set == [2598919, 2598920, 2598921]
    assert subscription.sub_string == "TagA || TagB||  TagC  "


def test_an_expression_without_tags_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="contains no tag"):
        build_subscription("orders", "||", 1)


def test_an_sql92_expression_is_sent_unchanged() -> None:
    subscription = build_subscription("orders", Sql92("price > 10"), 1)

    assert (subscription.sub_string, subscription.tags_set, subscription.expression_type) == ("price > 10", [], "SQL92")


def test_an_invalid_sql92_expression_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="SQL92"):
        build_subscription("orders", Sql92("price >"), 1)


def test_the_tag_filter_compares_tags() -> None:
    tagged = [Message("orders", tag.encode(), b"TAGS\x01%b\x02" % tag.encode()) for tag in ("Aa", "BB", "C")]
    none = Message("orders", b"none")

    assert TagFilter(build_subscription("orders", "Aa || C", 1)).filter([*tagged, none]) == [tagged[0], tagged[2]]
    assert TagFilter(build_subscription("orders", "*", 1)).filter([*tagged, none]) == [*tagged, none]
    assert TagFilter(build_subscription("orders", Sql92("a = 1"), 1)).filter([none]) == [none]


def test_topics_are_a_string_a_list_or_a_mapping() -> None:
    assert expressions("orders") == {"orders": "*"}
    assert expressions(["orders", "returns"]) == {"orders": "*", "returns": "*"}
    assert expressions({"orders": "TagA"}) == {"orders": "TagA"}
