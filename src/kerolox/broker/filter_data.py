"""The SQL92 expressions that consumers have registered, kept over a restart."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.persistence import Kept
from kerolox.filters.bloom import BloomFilter, BloomFilterData
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import SQL92, Expression, compile_expression
from kerolox.message.peek import Peek
from kerolox.message.properties import by_mark
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import CONSUMER_FILTER, JsonTable
from kerolox.wire.bodies.clients import TAG, SubscriptionData

log = logging.getLogger(__name__)

_PERSIST_SECONDS: Final = 10
# Consumers are taken to have been gone for so long when a broker starts.
_GONE_AT_START_MILLIS: Final = 30_000
# Bounds the original does not have.
_FILTERS_MAX: Final = 10_000
# Characters; the rest is compiled when somebody pulls by it.
_COMPILED_PER_HEARTBEAT_MAX: Final = 8192


class FilterData(msgspec.Struct, rename="camel", kw_only=True):
    """A consumer's expression as the file has it."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: int = 0
    client_version: int = 0
    consumer_group: str
    # As Java writes it; nobody reads it.
    dead: bool = False
    dead_time: int = 0
    expression: str
    expression_type: str | None = SQL92
    topic: str


class FilterDataOfTopic(msgspec.Struct, rename="camel"):
    group_filter_data: dict[str, FilterData] = {}
    topic: str | None = None


class FilterTable(msgspec.Struct, rename="camel"):
    filter_data_by_topic: dict[str, FilterDataOfTopic] = {}


@dataclass(slots=True, eq=False)
class ConsumerFilter:
    """What a group wants of a topic; it dies with the group, and is forgotten some time later."""

    topic: str
    group: str
    expression: Expression
    expression_type: str
    bloom: BloomFilterData
    version: int
    born_millis: int
    dead_millis: int = 0

    @property
    def is_dead(self) -> bool:
        return self.dead_millis >= self.born_millis

    def data(self) -> FilterData:
        return FilterData(
            bloom_filter_data=self.bloom,
            born_time=self.born_millis,
            client_version=self.version,
            consumer_group=self.group,
            dead=self.is_dead,
            dead_time=self.dead_millis,
            expression=self.expression.text,
            expression_type=self.expression_type,
            topic=self.topic,
        )


class ConsumerFilters:
    """By topic and group. A newer version of a subscription replaces the older; an older one is ignored."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_FILTER, FilterTable)
        self.file = Kept(self._json, self.serialized, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._by_topic: dict[str, dict[str, ConsumerFilter]] = {}
        # Of each group its topics.
        self._topics: dict[str, set[str]] = {}
        # About how many bytes all of them take.
        self.size = 0

    # The file

    def load(self) -> None:
        loaded = self._json.load() or FilterTable()
        every = [
            data for of_topic in loaded.filter_data_by_topic.values() for data in of_topic.group_filter_data.values()
        ]
        if not all(self.bloom.is_valid(data.bloom_filter_data) for data in every):
            log.warning("the size of the Bloom filter has changed: %d expressions of consumers are ignored", len(every))
            return
        for data in every:
            self._restore(data)

    def _restore(self, data: FilterData) -> None:
        try:
            expression = compiled(data.expression, data.expression_type)
        except ExpressionError as error:
            log.warning("expression of group %s for topic %s: %s", data.consumer_group, data.topic, error)
            return
        dead_millis = data.dead_time or max(self._clock.millis() - _GONE_AT_START_MILLIS, data.born_time)
        assert data.bloom_filter_data is not None
        self._add(
            ConsumerFilter(
                topic=data.topic,
                group=data.consumer_group,
                expression=expression,
                expression_type=data.expression_type or SQL92,
                bloom=data.bloom_filter_data,
                version=data.client_version,
                born_millis=data.born_time,
                dead_millis=dead_millis,
            )
        )

    def serialized(self) -> FilterTable:
        """Returns a copy, which may be encoded while others are registered."""
        return FilterTable(
            {
                topic: FilterDataOfTopic({group: known.data() for group, known in of_topic.items()}, topic)
                for topic, of_topic in self._by_topic.items()
            }
        )

    # Asking

    def find(self, topic: str, group: str) -> ConsumerFilter | None:
        of_topic = self._by_topic.get(topic)
        return None if of_topic is None else of_topic.get(group)

    def __iter__(self) -> Iterator[ConsumerFilter]:
        for of_topic in self._by_topic.values():
            yield from of_topic.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def bit_map_of(self, record: Peek) -> bytes:
        """Returns the bit map of a message for its queue: the bits of those who want it. Empty if nobody filters."""
        of_topic = self._by_topic.get(record.topic)
        if not of_topic:
            return b""
        look = by_mark(record.properties).get
        wanting = [known.bloom for known in of_topic.values() if known.expression.matches_found(look)]
        return self.bloom.bit_map(wanting)

    # Changing

    def subscribe(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Takes over all that a group's heartbeat says. What does not compile is logged and left to those who pull.

        While expressions are not enabled none is compiled, or kept.
        """
        topics: set[str] = set()
        is_enabled = self._config.enable_property_filter
        left = _COMPILED_PER_HEARTBEAT_MAX
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_enabled or is_tag_type(subscription.expression_type):
                continue
            known = self.find(subscription.topic, group)
            if known is None or known.expression.text != subscription.sub_string:
                left -= len(subscription.sub_string or "")
                if left < 0:
                    continue
            try:
                self.register(group, subscription)
            except ExpressionError as error:
                log.warning("expression of group %s for topic %s: %s", group, subscription.topic, error)
        for topic in self._topics.get(group, set()) - topics:
            self._die(self._by_topic[topic][group])

    def register(self, group: str, subscription: SubscriptionData) -> ConsumerFilter:
        """Returns what then holds for the group; ExpressionError, and nothing does, if it does not compile."""
        topic, text, version = subscription.topic, subscription.sub_string or "", subscription.sub_version
        known = self.find(topic, group)
        if known is not None and version <= known.version:
            if text != known.expression.text:
                log.info(
                    "ignored an older expression of group %s for topic %s: %d <= %d",
                    group,
                    topic,
                    version,
                    known.version,
                )
            if version == known.version:
                self._revive(known)
            return known
        bloom = self.bloom.generate(f"{group}#{topic}")
        if known is not None and text == known.expression.text and bloom == known.bloom:
            known.version = version
            self._revive(known)
            self.file.changed()
            return known
        if known is not None:
            self._remove(known)
        elif len(self) >= _FILTERS_MAX:
            raise ExpressionError(f"{_FILTERS_MAX} expressions are registered, which is the most there may be")
        expression = compiled(text, subscription.expression_type)
        size_max = self._config.expression_bytes_max
        if self.size + expression.size > size_max:
            raise ExpressionError(
                f"the expressions that are registered take {self.size} bytes, at most {size_max} allowed, "
                f"and this one would take {expression.size}"
            )
        made = ConsumerFilter(
            topic, group, expression, subscription.expression_type or SQL92, bloom, version, self._clock.millis()
        )
        self._add(made)
        self.file.changed()
        log.info("group %s wants of topic %s: %.200s", group, topic, text)
        return made

    def leave(self, group: str) -> None:
        """Notes that the last member of a group has gone."""
        for topic in self._topics.get(group, ()):
            self._die(self._by_topic[topic][group])

    def clean(self) -> None:
        """Forgets those who have been gone for long (filterDataCleanTimeSpan)."""
        oldest = self._clock.millis() - self._config.filter_data_clean_time_span
        for known in list(self):
            if known.is_dead and known.dead_millis <= oldest:
                log.info("forgot the expression of group %s for topic %s", known.group, known.topic)
                self._remove(known)

    def _add(self, known: ConsumerFilter) -> None:
        self.size += known.expression.size
        self._by_topic.setdefault(known.topic, {})[known.group] = known
        self._topics.setdefault(known.group, set()).add(known.topic)

    def _remove(self, known: ConsumerFilter) -> None:
        self.file.changed()
        self.size -= known.expression.size
        of_topic, topics = self._by_topic[known.topic], self._topics[known.group]
        del of_topic[known.group]
        topics.discard(known.topic)
        if not of_topic:
            del self._by_topic[known.topic]
        if not topics:
            del self._topics[known.group]

    def _die(self, known: ConsumerFilter) -> None:
        if not known.is_dead:
            known.dead_millis = self._clock.millis()
            self.file.changed()

    def _revive(self, known: ConsumerFilter) -> None:
        if known.is_dead:
            known.dead_millis = 0
            self.file.changed()


def is_tag_type(expression_type: str | None) -> bool:
    return expression_type in (None, "", TAG)


def compiled(text: str, expression_type: str | None) -> Expression:
    """Returns an expression of a type that is not TAG; ExpressionError if it is none, or of a type nobody knows."""
    if expression_type != SQL92:
        raise ExpressionError(f"expressions of type {expression_type!r} are not known, only {SQL92} and {TAG}")
    return compile_expression(text)
