"""What a consumer wants of a topic: all, some tags, or what an SQL92 expression says of the properties."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kerolox.errors import ConfigurationError
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import compile_expression
from kerolox.message import names, properties
from kerolox.message.message import Message as Record
from kerolox.message.tags import java_hash
from kerolox.wire.bodies.clients import SQL92, TAG, SubscriptionData

ALL = "*"
_TAGS = properties.mark(names.TAGS)


@dataclass(frozen=True, slots=True)
class Sql92:
    """An expression over the properties of messages, which the broker evaluates: `Sql92("price > 10")`."""

    expression: str


# Tags parted by `||`, or `*`.
Expression = str | Sql92


def subscription(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """Returns what heartbeats and pulls say; ConfigurationError if the expression cannot be read."""
    if isinstance(expression, Sql92):
        _check(expression.expression)
        return _data(topic, expression.expression, SQL92, [], version)
    tags = [tag.strip() for tag in expression.split("||") if tag.strip()]
    if not expression.strip() or expression.strip() == ALL:
        return _data(topic, ALL, TAG, [], version)
    if not tags:
        raise ConfigurationError(f"subscription {expression!r} of topic {topic!r} names no tag")
    return _data(topic, expression, TAG, tags, version)


def _check(expression: str) -> None:
    try:
        compile_expression(expression)
    except ExpressionError as error:
        raise ConfigurationError(f"{expression!r} is no SQL92 expression: {error}") from error


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
    """Brokers compare hashes of tags only; this compares the tags."""

    def __init__(self, wanted: SubscriptionData) -> None:
        self._tags = frozenset(tag.encode() for tag in wanted.tags_set or ())

    def of(self, records: list[Record]) -> list[Record]:
        """Returns the messages that were really asked for."""
        tags = self._tags
        if not tags:
            return records
        find = properties.find
        return [record for record in records if find(record.properties, _TAGS) in tags]


def expressions(topics: Mapping[str, Expression] | Iterable[str] | str) -> dict[str, Expression]:
    """Returns the expression of each topic, of whichever form the user gave: one, several, or with expressions."""
    if isinstance(topics, str):
        return {topics: ALL}
    if isinstance(topics, Mapping):
        return dict(topics)
    return dict.fromkeys(topics, ALL)
