"""POP consumption, assembled: taking, acknowledging, reviving and long polling."""

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.acks import Acks
from kerolox.broker.pop.checkpoints import ReviveLog
from kerolox.broker.pop.in_flight import InFlightCounts
from kerolox.broker.pop.long_polling import PopLongPolling
from kerolox.broker.pop.metrics import PopMetrics
from kerolox.broker.pop.order_info import OrderInfos
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.peek import PopPeek
from kerolox.broker.pop.pop_offsets import PopOffsets
from kerolox.broker.pop.recovery import PopRecovery
from kerolox.broker.pop.revive import ReviveService
from kerolox.broker.pop.service import PopService
from kerolox.broker.pop.take import PopTake
from kerolox.broker.tables.system_topics import revive_topic


class Pop:
    """Everything that the processor of POP requests needs. `orders.file` and `revive` are services of the broker."""

    def __init__(self, parts: BrokerParts) -> None:
        config, store, clock = parts.config, parts.store, parts.clock
        self._store = store
        self.offsets = PopOffsets(parts.offsets, lambda: store.flusher.durable_offset)
        self.orders = OrderInfos(config, parts.disk, parts.config_directory, clock)
        self.in_flight = InFlightCounts(clock.millis())
        self.revive_log = ReviveLog(
            revive_topic(config), config.broker_name, clock.millis, host=lambda: parts.message_put.store_host
        )
        self.metrics = PopMetrics()
        shared = PopParts(self.offsets, self.orders, self.in_flight, self.revive_log, self.metrics)

        # POP_MESSAGE and NOTIFICATION requests wait apart from each other.
        self.polling = _long_polling(parts)
        self.notification_polling = _long_polling(parts)

        self.take = PopTake(parts, shared)
        self.service = PopService(parts, shared, self.take, on_messages_left=self.wake)
        self.peek = PopPeek(parts, shared, self.take)
        self.acks = Acks(parts, shared, on_unblocked=self.wake)
        recovery = PopRecovery(store, parts.topics, parts.groups, self.offsets, self.revive_log)
        self.revive = ReviveService(parts, shared, recovery)
        if not store.config.is_slave:
            # A slave saves the position that its master tells.
            parts.offsets.track_pops(self.settle, self._saved_position)

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Let waiting requests of a group look at a queue; `topic` is the one they asked for, not a retry topic."""
        self.polling.wake_all(topic, group, queue_id)
        self.notification_polling.wake_all(topic, group, queue_id)

    async def settle(self) -> None:
        """Commit all pop offsets, unless the log cannot be made durable."""
        if len(self.offsets):
            await self._store.flusher.flush()
            self.offsets.settle()

    def _saved_position(self) -> int:
        """Return the physical offset before which the table of consumer offsets includes all checkpoints."""
        position = min(self.offsets.saved_position(), self._store.log.end_offset)
        return int(min(position, *self.take.locked.values())) if self.take.locked else int(position)


def _long_polling(parts: BrokerParts) -> PopLongPolling:
    config = parts.config
    size_max = min(config.max_pop_polling_size, config.pop_polling_map_size)
    return PopLongPolling(parts.store.message_waiters, queue_size_max=config.pop_polling_size, size_max=size_max)
