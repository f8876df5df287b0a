"""Which messages a consumer gets: by tags, or by an SQL92 expression."""

from typing import NamedTuple

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import FilterDataNotFound, FilterDataNotLatest, SubscriptionParseFailed
from kerolox.broker.filter_data import ConsumerFilter, ConsumerFilters, compiled, is_tag_type
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.errors import SystemFailure
from kerolox.filters.bloom import is_hit
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import Expression
from kerolox.message import names
from kerolox.message.peek import properties_of
from kerolox.message.properties import find, mark
from kerolox.message.tags import tags_code
from kerolox.store.queue.pull import Matches, Wants
from kerolox.store.queue.queue_ext import ExtUnit
from kerolox.wire.bodies.clients import SubscriptionData

_RETRY_TOPIC_MARK = mark(names.RETRY_TOPIC)


class Selection(NamedTuple):
    """What an entry of a queue must fulfil, and then what the record must; None if every one will do."""

    matches: Matches | None = None
    wants: Wants | None = None


EVERYTHING = Selection()


class Selector:
    """Makes selections of subscriptions; refuses in the original's words where it does."""

    def __init__(self, config: BrokerConfig, filters: ConsumerFilters) -> None:
        self._config = config
        self._filters = filters

    def of_request(self, group: str, topic: str, text: str | None, expression_type: str | None) -> Selection:
        """Returns the selection for a request that carries its own expression."""
        if is_tag_type(expression_type):
            selection = EVERYTHING if text == "*" else by_tags(text or "*")
            return self._by_tags(selection, group, topic) if self._config.filter_support_retry else selection
        self._check_enabled(expression_type)
        try:
            expression = compiled(text or "", expression_type)
        except ExpressionError as error:
            raise SubscriptionParseFailed(f"parse the consumer's subscription failed: {error}") from error
        return Selection(None, wanting(expression))

    def of_subscription(self, group: str, subscription: SubscriptionData, version: int) -> Selection:
        """Returns the selection for a subscription that heartbeats brought; `version` is the one the consumer has."""
        topic = subscription.topic
        if is_tag_type(subscription.expression_type):
            if subscription.class_filter_mode:
                # Whoever uploads a class to filter servers asks them. Nobody else may judge by it.
                return EVERYTHING
            if subscription.sub_string in (None, "", "*"):
                return self._by_tags(EVERYTHING, group, topic)
            return self._by_tags(by_codes(frozenset(subscription.code_set or ())), group, topic)
        # First of all: nothing is compiled, or kept, that nobody may use.
        self._check_enabled(subscription.expression_type)
        known = self._registered(group, subscription)
        if known.version < version:
            raise FilterDataNotLatest("the consumer's consumer filter data not latest")
        if subscription.class_filter_mode:
            return EVERYTHING
        return Selection(self._by_bits(known), wanting(known.expression))

    def _registered(self, group: str, subscription: SubscriptionData) -> ConsumerFilter:
        known = self._filters.find(subscription.topic, group)
        if known is not None and known.version >= subscription.sub_version and not known.is_dead:
            return known
        # Its heartbeat has not registered it; why not is what the consumer should hear.
        try:
            return self._filters.register(group, subscription)
        except ExpressionError as error:
            problem = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise FilterDataNotFound(f"{problem} {error}") from error

    def _check_enabled(self, expression_type: str | None) -> None:
        if not self._config.enable_property_filter:
            raise SystemFailure(f"The broker does not support consumer to filter message by {expression_type}")

    def _by_tags(self, selection: Selection, group: str, topic: str) -> Selection:
        """Adds what holds for messages that come again: the expression of the topic they came from."""
        if not self._config.filter_support_retry or not topic.startswith(RETRY_PREFIX):
            return selection
        filters = self._filters

        def wants(record: bytes) -> bool:
            properties = properties_of(record)
            origin = find(properties, _RETRY_TOPIC_MARK).decode("utf-8", "replace")
            known = filters.find(origin, group)
            return known is None or known.expression.matches(properties)

        return selection._replace(wants=wants)

    def _by_bits(self, known: ConsumerFilter) -> Matches | None:
        """Judges by the bit maps beside a queue, where messages have them (enableCalcFilterBitMap)."""
        if not self._config.enable_calc_filter_bit_map:
            return None
        bloom, born_millis, size = known.bloom, known.born_millis, known.bloom.bit_num // 8

        def matches(tags_code: int | None, unit: ExtUnit | None) -> bool:
            # Bits of messages that came before the consumer say nothing about it.
            if unit is None or unit.store_timestamp <= born_millis or len(unit.bit_map) != size:
                return True
            return is_hit(bloom, unit.bit_map)

        return matches


def wanting(expression: Expression) -> Wants:
    matches = expression.matches
    return lambda record: matches(properties_of(record))


def by_tags(text: str) -> Selection:
    """Returns the selection of an expression such as `TagA || TagB`; everything for `*`."""
    if text.strip() in ("", "*"):
        return EVERYTHING
    tags = [tag.strip() for tag in text.split("||")]
    if not any(tags):
        raise SubscriptionParseFailed("parse the consumer's subscription failed")
    return by_codes(frozenset(tags_code(tag.encode()) for tag in tags if tag))


def by_codes(codes: frozenset[int]) -> Selection:
    return Selection(lambda code, unit: code is None or code in codes)
