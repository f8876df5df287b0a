"""How far a group has come: in one queue, in all of them, and in a line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from kerolox.errors import KeroloxError
from kerolox.wire.bodies.queues import MessageQueue

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group has come in one queue."""

    # The offset that the next message of the queue will have, and the one that the group will consume next.
    broker_offset: int
    consumer_offset: int
    # Up to where messages were handed out; brokers before 5.0 do not say.
    pull_offset: int | None
    # When the last message that was consumed had been stored; 0 if none was.
    last_millis: int
    # Which client has the queue, if that was asked.
    client_id: str | None = None

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a group has come."""

    group: str
    queues: Mapping[MessageQueue, QueueProgress]
    # Messages for a second, lately.
    consume_tps: float

    @property
    def lag(self) -> int:
        """How many messages wait for the group."""
        return sum(queue.lag for queue in self.queues.values())

    @property
    def by_topic(self) -> dict[str, int]:
        """How many of them in each topic."""
        return self._lags({queue: queue.topic for queue in self.queues})

    @property
    def by_client(self) -> dict[str | None, int]:
        """How many of them for each client; under None for queues that nobody has."""
        return self._lags({queue: progress.client_id for queue, progress in self.queues.items()})

    def _lags(self, keys: Mapping[MessageQueue, K]) -> dict[K, int]:
        lags: dict[K, int] = {}
        for queue, key in keys.items():
            lags[key] = lags.get(key, 0) + self.queues[queue].lag
        return lags


@dataclass(frozen=True, slots=True)
class Rollback:
    """What became of a group's offset in one queue that was set to a time."""

    queue: MessageQueue
    broker_offset: int
    # Where it was, where the time lies, and where it is now.
    consumer_offset: int
    moment_offset: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """A group in a line. What is not known is None: who is not online tells nothing of itself."""

    group: str
    # How many are online.
    client_count: int = 0
    consume_type: str | None = None
    message_model: str | None = None
    consume_tps: float = 0.0
    lag: int | None = None
    # What could not be asked, and why.
    error: KeroloxError | None = None
