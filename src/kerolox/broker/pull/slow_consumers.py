"""How far pulls are behind the end of the commit log, and protection from consumers that are too slow."""

import logging
from collections.abc import Callable

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.groups import GroupTable
from kerolox.message.errors import RecordError
from kerolox.message.records.record import decode
from kerolox.runtime.clock import Clock
from kerolox.store.errors import StoreError
from kerolox.store.store import Store

log = logging.getLogger(__name__)

# Pairs of queue and group that are tracked; RocketMQ has no limit.
_POSITIONS_MAX = 100_000

_Key = tuple[str, str, int]


class _PullPosition:
    """The last message of the last pull of a queue by a group."""

    __slots__ = ("bytes_behind", "next_offset", "physical_offset", "pulled_millis")

    physical_offset: int
    # Bytes from the message to the end of the log, at the time of the pull.
    bytes_behind: int
    pulled_millis: int
    # The queue offset of the next message.
    next_offset: int


class SlowConsumers:
    """The last pull of each queue and group; Java keeps the same as GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME."""

    def __init__(self, config: BrokerConfig, store: Store, groups: GroupTable, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._groups = groups
        self._clock = clock
        self._positions: dict[_Key, _PullPosition] = {}

    def pulled(self, topic: str, group: str, queue_id: int, physical_offset: int, next_offset: int) -> None:
        """Record the last message of a pull; `physical_offset` is -1 if the group has pulled everything."""
        key = topic, group, queue_id
        position = self._positions.get(key)
        if position is None:
            if len(self._positions) >= _POSITIONS_MAX:
                return
            position = self._positions[key] = _PullPosition()
        position.physical_offset = physical_offset
        position.bytes_behind = 0 if physical_offset < 0 else self._store.log.end_offset - physical_offset
        position.pulled_millis = self._clock.millis()
        position.next_offset = next_offset

    def bytes_behind(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return how many bytes the last pull was behind the end of the log; None if the group never pulled."""
        position = self._positions.get((topic, group, queue_id))
        return None if position is None else position.bytes_behind

    def next_offset(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return the queue offset after the last pulled message; None if the group never pulled."""
        position = self._positions.get((topic, group, queue_id))
        return None if position is None else position.next_offset

    def age_millis(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return the age of the last pulled message at the time of the pull; None if unknown or deleted since."""
        position = self._positions.get((topic, group, queue_id))
        if position is None or position.physical_offset < 0:
            return None if position is None else 0
        try:
            record = self._store.reader.record_at(position.physical_offset)
            return None if record is None else position.pulled_millis - decode(record).store_timestamp
        except (RecordError, StoreError):
            return None

    def protect(self) -> None:
        """Forbid slow groups to consume, if disableConsumeIfConsumerReadSlowly is set (protectBroker in Java)."""
        if not self._config.disable_consume_if_consumer_read_slowly:
            return
        bytes_max = self._config.consumer_fallbehind_threshold
        for (_, name, _), position in self._positions.items():
            group = self._groups.groups.get(name)
            if position.bytes_behind > bytes_max and group is not None and group.consume_enable:
                log.warning(
                    "group %s may no longer consume: it is %d bytes behind, at most %d allowed "
                    "(consumerFallbehindThreshold)",
                    name,
                    position.bytes_behind,
                    bytes_max,
                )
                self._groups.put(msgspec.structs.replace(group, consume_enable=False))

    def forget_topic(self, topic: str) -> None:
        self._forget(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        self._forget(lambda key: key[1] == group)

    def _forget(self, is_deleted: Callable[[_Key], bool]) -> None:
        for key in [key for key in self._positions if is_deleted(key)]:
            del self._positions[key]
