"""How far behind the end of the log groups pull, and what protects a broker from those that are too far."""

import logging
from collections.abc import Callable

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.groups import GroupTable
from kerolox.message.errors import RecordError
from kerolox.message.record import decode
from kerolox.runtime.clock import Clock
from kerolox.store.errors import StoreError
from kerolox.store.store import Store

log = logging.getLogger(__name__)

# A bound the original does not have: of so many queues and groups it is known.
_PLACES_MAX = 100_000

_Key = tuple[str, str, int]


class _Place:
    """Where in the log a message began that was pulled, how much there was behind it, and when that was."""

    __slots__ = ("millis", "next_offset", "physical_offset", "size")

    physical_offset: int
    size: int
    millis: int
    # In its queue, what is pulled after it.
    next_offset: int


class FallBehind:
    """Of each queue and group the last pull; what the original keeps as GROUP_GET_FALL_SIZE and GROUP_GET_FALL_TIME."""

    def __init__(self, config: BrokerConfig, store: Store, groups: GroupTable, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._groups = groups
        self._clock = clock
        self._places: dict[_Key, _Place] = {}

    def pulled(self, topic: str, group: str, queue_id: int, physical_offset: int, next_offset: int) -> None:
        """Notes where the last message lies that was pulled, -1 if the group has all there is, and what comes next."""
        key = topic, group, queue_id
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= _PLACES_MAX:
                return
            place = self._places[key] = _Place()
        place.physical_offset = physical_offset
        place.size = 0 if physical_offset < 0 else self._store.log.end_offset - physical_offset
        place.millis = self._clock.millis()
        place.next_offset = next_offset

    def size(self, topic: str, group: str, queue_id: int) -> int | None:
        """Returns how many bytes of the log the group had before it; None if it never pulled."""
        place = self._places.get((topic, group, queue_id))
        return None if place is None else place.size

    def next_offset(self, topic: str, group: str, queue_id: int) -> int | None:
        """Returns up to where the group has pulled; None if it never did."""
        place = self._places.get((topic, group, queue_id))
        return None if place is None else place.next_offset

    def millis(self, topic: str, group: str, queue_id: int) -> int | None:
        """Returns how old the last message was when it was pulled; None if that is not known any more."""
        place = self._places.get((topic, group, queue_id))
        if place is None or place.physical_offset < 0:
            return None if place is None else 0
        try:
            record = self._store.reader.record_at(place.physical_offset)
            return None if record is None else place.millis - decode(record).store_timestamp
        except (RecordError, StoreError):
            return None

    def protect(self) -> None:
        """Forbids consuming to groups that are too far behind, if the configuration wants it."""
        if not self._config.disable_consume_if_consumer_read_slowly:
            return
        for (_, name, _), place in self._places.items():
            group = self._groups.groups.get(name)
            if place.size > self._config.consumer_fallbehind_threshold and group is not None and group.consume_enable:
                log.warning("group %s is %d bytes behind and may not consume any more", name, place.size)
                self._groups.put(msgspec.structs.replace(group, consume_enable=False))

    def forget_topic(self, topic: str) -> None:
        self._forget(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        self._forget(lambda key: key[1] == group)

    def _forget(self, is_gone: Callable[[_Key], bool]) -> None:
        for key in [key for key in self._places if is_gone(key)]:
            del self._places[key]
