"""Message filters of pull and pop requests, by tags or SQL92 expression (ExpressionMessageFilter)."""

from typing import NamedTuple

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import FilterDataNotFound, FilterDataNotLatest, SubscriptionParseFailed
from kerolox.broker.tables.consumer_filters import ConsumerFilter, ConsumerFilters, compiled, is_tag_type
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import SystemFailure
from kerolox.filters.bloom import is_hit
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import Expression
from kerolox.message import property_names
from kerolox.message.properties import find, mark
from kerolox.message.records.summary import properties_of
from kerolox.message.tags import tags_code
from kerolox.store.queue.lookup import EntryFilter, RecordFilter
from kerolox.store.queue.queue_ext import ExtUnit
from kerolox.wire.bodies.clients import SubscriptionData

_RETRY_TOPIC_MARK = mark(property_names.RETRY_TOPIC)


class MessageFilter(NamedTuple):
    """`matches` tests a consume queue entry, then `wants` the record in the commit log; None accepts everything."""

    matches: EntryFilter | None = None
    wants: RecordFilter | None = None


EVERYTHING = MessageFilter()


class Selector:
    """Builds the filter of a request; error messages are Java's where Java has one."""

    def __init__(self, config: BrokerConfig, filters: ConsumerFilters) -> None:
        self._config = config
        self._filters = filters

    def of_request(self, group: str, topic: str, text: str | None, expression_type: str | None) -> MessageFilter:
        """Return the filter for a request that contains its own expression."""
        if is_tag_type(expression_type):
            by_tag = EVERYTHING if text == "*" else by_tags(text or "*")
            return self._with_retry_filter(by_tag, group, topic) if self._config.filter_support_retry else by_tag
        self._check_enabled(expression_type)
        try:
            expression = compiled(text or "", expression_type)
        except ExpressionError as error:
            raise SubscriptionParseFailed(f"parse the consumer's subscription failed: {error}") from error
        return MessageFilter(None, by_expression(expression))

    def of_subscription(self, group: str, subscription: SubscriptionData, version: int) -> MessageFilter:
        """Return the filter for a subscription known from heartbeats; `version` is the consumer's version of it."""
        topic = subscription.topic
        if is_tag_type(subscription.expression_type):
            if subscription.class_filter_mode:
                # A filter server pulls for its consumers and applies their class itself.
                return EVERYTHING
            if subscription.sub_string in (None, "", "*"):
                return self._with_retry_filter(EVERYTHING, group, topic)
            return self._with_retry_filter(by_codes(frozenset(subscription.code_set or ())), group, topic)
        # Checked first, so that no expression is compiled or kept while expressions are disabled.
        self._check_enabled(subscription.expression_type)
        known = self._registered(group, subscription)
        if known.version < version:
            raise FilterDataNotLatest("the consumer's consumer filter data not latest")
        if subscription.class_filter_mode:
            return EVERYTHING
        return MessageFilter(self._by_bit_map(known), by_expression(known.expression))

    def _registered(self, group: str, subscription: SubscriptionData) -> ConsumerFilter:
        known = self._filters.find(subscription.topic, group)
        if known is not None and known.version >= subscription.sub_version and not known.is_dead:
            return known
        # The heartbeat did not register it. Try again, so that the consumer gets the reason.
        try:
            return self._filters.register(group, subscription)
        except ExpressionError as error:
            problem = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise FilterDataNotFound(f"{problem} {error}") from error

    def _check_enabled(self, expression_type: str | None) -> None:
        if not self._config.enable_property_filter:
            raise SystemFailure(f"The broker does not support consumer to filter message by {expression_type}")

    def _with_retry_filter(self, message_filter: MessageFilter, group: str, topic: str) -> MessageFilter:
        """For a retry topic, add the group's expression for the topic that each message was first sent to."""
        if not self._config.filter_support_retry or not topic.startswith(RETRY_PREFIX):
            return message_filter
        filters = self._filters

        def wants(record: bytes) -> bool:
            properties = properties_of(record)
            origin = find(properties, _RETRY_TOPIC_MARK).decode("utf-8", "replace")
            known = filters.find(origin, group)
            return known is None or known.expression.matches(properties)

        return message_filter._replace(wants=wants)

    def _by_bit_map(self, known: ConsumerFilter) -> EntryFilter | None:
        """Filter by the bit maps in the consume queue extension (enableCalcFilterBitMap)."""
        if not self._config.enable_calc_filter_bit_map:
            return None
        bloom, born_millis, size = known.bloom, known.born_millis, known.bloom.bit_num // 8

        def matches(tags_code: int | None, unit: ExtUnit | None) -> bool:
            # A message stored before the filter was registered has no bit for it.
            if unit is None or unit.store_timestamp <= born_millis or len(unit.bit_map) != size:
                return True
            return is_hit(bloom, unit.bit_map)

        return matches


def by_expression(expression: Expression) -> RecordFilter:
    matches = expression.matches
    return lambda record: matches(properties_of(record))


def by_tags(text: str) -> MessageFilter:
    """Return the filter of a tag expression such as `TagA || TagB`; EVERYTHING for `*`."""
    if text.strip() in ("", "*"):
        return EVERYTHING
    tags = [tag.strip() for tag in text.split("||")]
    if not any(tags):
        raise SubscriptionParseFailed("parse the consumer's subscription failed")
    return by_codes(frozenset(tags_code(tag.encode()) for tag in tags if tag))


def by_codes(codes: frozenset[int]) -> MessageFilter:
    return MessageFilter(lambda code, unit: code is None or code in codes)
