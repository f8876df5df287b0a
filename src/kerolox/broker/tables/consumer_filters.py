"""SQL92 expressions that consumers have registered; they survive a restart (ConsumerFilterManager)."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.json_file import JsonFile
from kerolox.filters.bloom import BloomFilter, BloomFilterData
from kerolox.filters.errors import ExpressionError
from kerolox.filters.sql92 import SQL92, Expression, compile_expression
from kerolox.message.properties import by_mark
from kerolox.message.records.summary import RecordSummary
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import CONSUMER_FILTER, JsonTable
from kerolox.wire.bodies.clients import TAG, SubscriptionData

log = logging.getLogger(__name__)

_PERSIST_SECONDS: Final = 10
# When a broker starts, filters without a time of death count as dead since this long, as in Java.
_DEAD_AT_START_MILLIS: Final = 30_000
# Limits that RocketMQ does not have. A heartbeat compiles expressions up to this many characters, so that it does not
# block the event loop; the others are compiled by the first pull that uses them.
_FILTERS_MAX: Final = 10_000
_COMPILED_PER_HEARTBEAT_MAX: Final = 8192
# Fixed cost of compiling an expression, in characters.
_COMPILATION_COST: Final = 64


class FilterData(msgspec.Struct, rename="camel", kw_only=True):
    """A consumer's expression as stored in consumerFilter.json."""

    bloom_filter_data: BloomFilterData | None = None
    born_time: int = 0
    client_version: int = 0
    consumer_group: str
    # Written because Java does; never read.
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
    """The expression of one group for one topic. It is dead after the group has left, and is deleted later."""

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
    """Filters by topic and group. A newer version of a subscription replaces an older one; an older one is ignored."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_FILTER, FilterTable)
        self.file = JsonFile(self._json, self.serialized, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._by_topic: dict[str, dict[str, ConsumerFilter]] = {}
        self._topics_by_group: dict[str, set[str]] = {}
        # Approximate memory of all expressions, in bytes.
        self.size = 0

    # The file

    def load(self) -> None:
        loaded = self._json.load() or FilterTable()
        every = [
            data for of_topic in loaded.filter_data_by_topic.values() for data in of_topic.group_filter_data.values()
        ]
        if not all(self.bloom.is_valid(data.bloom_filter_data) for data in every):
            log.warning("the size of the Bloom filter has changed: ignored %d consumer expressions", len(every))
            return
        for data in every:
            self._restore(data)

    def _restore(self, data: FilterData) -> None:
        try:
            expression = compiled(data.expression, data.expression_type)
        except ExpressionError as error:
            log.warning("ignored the expression of group %s for topic %s: %s", data.consumer_group, data.topic, error)
            return
        dead_millis = data.dead_time or max(self._clock.millis() - _DEAD_AT_START_MILLIS, data.born_time)
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
        """Return a copy, which a thread may encode while filters change."""
        return FilterTable(
            {
                topic: FilterDataOfTopic({group: known.data() for group, known in of_topic.items()}, topic)
                for topic, of_topic in self._by_topic.items()
            }
        )

    # Lookup

    def find(self, topic: str, group: str) -> ConsumerFilter | None:
        of_topic = self._by_topic.get(topic)
        return None if of_topic is None else of_topic.get(group)

    def __iter__(self) -> Iterator[ConsumerFilter]:
        for of_topic in self._by_topic.values():
            yield from of_topic.values()

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def bit_map_of(self, record: RecordSummary) -> bytes:
        """Return the bit map of a message for the consume queue extension: the bits of all filters that match it.

        Empty if the topic has no filters.
        """
        of_topic = self._by_topic.get(record.topic)
        if not of_topic:
            return b""
        find_property = by_mark(record.properties).get
        matching = [known.bloom for known in of_topic.values() if known.expression.matches_found(find_property)]
        return self.bloom.bit_map(matching)

    # Changes

    def subscribe(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Register the expressions of a group's heartbeat; filters for other topics of the group become dead.

        An expression that does not compile is logged here; a pull with it gets the error. Without enablePropertyFilter
        no expression is compiled or kept.
        """
        topics: set[str] = set()
        is_enabled = self._config.enable_property_filter
        budget = _COMPILED_PER_HEARTBEAT_MAX
        errors: list[str] = []
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_enabled or is_tag_type(subscription.expression_type):
                continue
            known = self.find(subscription.topic, group)
            if known is None or known.expression.text != subscription.sub_string:
                budget -= _COMPILATION_COST + len(subscription.sub_string or "")
                if budget < 0:
                    continue
            try:
                self.register(group, subscription)
            except ExpressionError as error:
                errors.append(f"topic {subscription.topic}: {error}")
        if errors:
            log.warning("rejected %d expressions of group %s, the first for %s", len(errors), group, errors[0])
        for topic in self._topics_by_group.get(group, set()) - topics:
            self._mark_dead(self._by_topic[topic][group])

    def register(self, group: str, subscription: SubscriptionData) -> ConsumerFilter:
        """Return the filter that is valid afterwards: the registered one, or the known one if that is newer.

        If the expression does not compile, the group's old filter is removed and ExpressionError raised.
        """
        topic, text, version = subscription.topic, subscription.sub_string or "", subscription.sub_version
        known = self.find(topic, group)
        if known is not None and version <= known.version:
            if text != known.expression.text:
                log.info(
                    "ignored an older expression of group %s for topic %s: version %d <= %d",
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
            raise ExpressionError(f"{_FILTERS_MAX} expressions are registered, which is the maximum")
        expression = compiled(text, subscription.expression_type)
        size_max = self._config.expression_bytes_max
        if self.size + expression.size > size_max:
            raise ExpressionError(
                f"the registered expressions take {self.size} bytes, at most {size_max} allowed (expressionBytesMax), "
                f"and this one would take {expression.size}"
            )
        registered = ConsumerFilter(
            topic, group, expression, subscription.expression_type or SQL92, bloom, version, self._clock.millis()
        )
        self._add(registered)
        self.file.changed()
        log.info("group %s filters topic %s by: %.200s", group, topic, text)
        return registered

    def leave(self, group: str) -> None:
        """Mark the filters of a group as dead, because its last member has left."""
        for topic in self._topics_by_group.get(group, ()):
            self._mark_dead(self._by_topic[topic][group])

    def clean(self) -> None:
        """Delete filters that have been dead for filterDataCleanTimeSpan."""
        now = self._clock.millis()
        oldest = now - self._config.filter_data_clean_time_span
        for known in list(self):
            if known.is_dead and known.dead_millis > now:
                # The clock was set back since then: count from now on.
                known.born_millis, known.dead_millis = min(known.born_millis, now), now
                self.file.changed()
            if known.is_dead and known.dead_millis <= oldest:
                log.info("deleted the expression of group %s for topic %s", known.group, known.topic)
                self._remove(known)

    def _add(self, known: ConsumerFilter) -> None:
        self.size += known.expression.size
        self._by_topic.setdefault(known.topic, {})[known.group] = known
        self._topics_by_group.setdefault(known.group, set()).add(known.topic)

    def _remove(self, known: ConsumerFilter) -> None:
        self.file.changed()
        self.size -= known.expression.size
        of_topic, topics = self._by_topic[known.topic], self._topics_by_group[known.group]
        del of_topic[known.group]
        topics.discard(known.topic)
        if not of_topic:
            del self._by_topic[known.topic]
        if not topics:
            del self._topics_by_group[known.group]

    def _mark_dead(self, known: ConsumerFilter) -> None:
        if not known.is_dead:
            known.dead_millis = max(self._clock.millis(), known.born_millis)
            self.file.changed()

    def _revive(self, known: ConsumerFilter) -> None:
        if known.is_dead:
            known.dead_millis = 0
            self.file.changed()


def is_tag_type(expression_type: str | None) -> bool:
    return expression_type in (None, "", TAG)


def compiled(text: str, expression_type: str | None) -> Expression:
    """Compile an expression that is not of type TAG; ExpressionError if it is not valid or not of type SQL92."""
    if expression_type != SQL92:
        raise ExpressionError(f"expression type {expression_type!r} is not supported, only {SQL92} and {TAG}")
    return compile_expression(text)
