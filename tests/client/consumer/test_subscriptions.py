"""What consumers want of a topic."""

import pytest

from kerolox.client.consumer.subscriptions import Sql92, TagFilter, expressions, subscription
from kerolox.errors import ConfigurationError
from kerolox.message.message import Message


@pytest.mark.parametrize("expression", ["*", "", "  ", " * "])
def test_all_is_wanted(expression: str) -> None:
    wanted = subscription("orders", expression, 7)

    assert (wanted.sub_string, wanted.tags_set, wanted.code_set, wanted.expression_type) == ("*", [], [], "TAG")
    assert wanted.sub_version == 7


def test_tags_are_parted_by_two_bars() -> None:
    wanted = subscription("orders", "TagA || TagB||  TagC  ", 1)

    assert wanted.tags_set == ["TagA", "TagB", "TagC"]
    assert wanted.code_set == [2598919, 2598920, 2598921]
    assert wanted.sub_string == "TagA || TagB||  TagC  "


def test_an_expression_that_names_no_tag_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no tag"):
        subscription("orders", "||", 1)


def test_sql_is_sent_as_it_is() -> None:
    wanted = subscription("orders", Sql92("price > 10"), 1)

    assert (wanted.sub_string, wanted.tags_set, wanted.expression_type) == ("price > 10", [], "SQL92")


def test_sql_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="SQL92"):
        subscription("orders", Sql92("price >"), 1)


def test_only_messages_with_a_wanted_tag_pass() -> None:
    tagged = [Message("orders", tag.encode(), b"TAGS\x01%b\x02" % tag.encode()) for tag in ("Aa", "BB", "C")]
    none = Message("orders", b"none")

    assert TagFilter(subscription("orders", "Aa || C", 1)).of([*tagged, none]) == [tagged[0], tagged[2]]
    assert TagFilter(subscription("orders", "*", 1)).of([*tagged, none]) == [*tagged, none]
    assert TagFilter(subscription("orders", Sql92("a = 1"), 1)).of([none]) == [none]


def test_topics_may_be_given_alone_or_together_or_with_expressions() -> None:
    assert expressions("orders") == {"orders": "*"}
    assert expressions(["orders", "returns"]) == {"orders": "*", "returns": "*"}
    assert expressions({"orders": "TagA"}) == {"orders": "TagA"}
