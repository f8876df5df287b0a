"""Subscriptions: all messages of a topic, those with certain tags, or those that match an SQL92 expression."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kerolox.errors import ConfigurationError
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.message import properties, property_names
from kerolox.message.message import Message as Record
from kerolox.message.tags import java_hash
from kerolox.wire.bodies.clients import SQL92, TAG, SubscriptionData

ALL = "*"
_TAGS = properties.mark(property_names.TAGS)


@dataclass(frozen=True, slots=True)
class Sql92:
    """An expression over the properties of messages, which the broker evaluates: `Sql92("price > 10")`."""

    expression: str


# Tags separated by `||`, or `*`.
Expression = str | Sql92


def build_subscription(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """Return the subscription for heartbeats and pulls; raise ConfigurationError if the expression is invalid."""
    if isinstance(expression, Sql92):
        _check(expression.expression)
        return _data(topic, expression.expression, SQL92, [], version)
    tags = [tag.strip() for tag in expression.split("||") if tag.strip()]
    if not expression.strip() or expression.strip() == ALL:
        return _data(topic, ALL, TAG, [], version)
    if not tags:
        raise ConfigurationError(f"subscription {expression!r} of topic {topic!r} contains no tag")
    return _data(topic, expression, TAG, tags, version)


def _check(expression: str) -> None:
    try:
        compile_expression(expression)
    except ExpressionError as error:
        raise ConfigurationError(f"{expression!r} is not a valid SQL92 expression: {error}") from error


def _data(topic: str, text: str, kind: str, tags: list[str], version: int) -> SubscriptionData:
    return SubscriptionData(
        code_set=[java_hash(tag) for tag in tags],
        expression_type=kind,
        sub_string=text,
        sub_version=version,
        tags_set=tags,
        topic=topic,
    )


class TagFilter:
    """SessionInterface compare only the hashes of tags, so the client must compare the tags themselves."""

    def __init__(self, subscription: SubscriptionData) -> None:
        self._tags = frozenset(tag.encode() for tag in subscription.tags_set or ())

    def filter(self, records: list[Record]) -> list[Record]:
        """Return the records whose tag is subscribed."""
        tags = self._tags
        if not tags:
            return records
        find = properties.find
        return [record for record in records if find(record.properties, _TAGS) in tags]


def expressions(topics: Mapping[str, Expression] | Iterable[str] | str) -> dict[str, Expression]:
    """Return topic → expression for one topic, several topics, or a mapping."""
    if isinstance(topics, str):
        return {topics: ALL}
    if isinstance(topics, Mapping):
        return dict(topics)
    return dict.fromkeys(topics, ALL)
