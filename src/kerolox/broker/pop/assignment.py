"""Broker-side queue assignment, and whether groups pull or pop (MessageRequestModeManager)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.json_file import JsonFile
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.clients import MessageRequestMode
from kerolox.wire.bodies.pop import POP, PULL, MessageRequestModes
from kerolox.wire.bodies.queues import MessageQueue

MESSAGE_REQUEST_MODE = "messageRequestMode.json"
_PERSIST_SECONDS = 10
# A limit that RocketMQ does not have.
_MODES_MAX = 200_000

Queues = Sequence[MessageQueue]
# (sorted queues, sorted members, member) -> queues of that member.
Strategy = Callable[[Queues, Sequence[str], str], list[MessageQueue]]


class RequestModes:
    """PULL or POP by topic and group, as set by operators; the configuration has the defaults."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._json = JsonTable(disk, directory / MESSAGE_REQUEST_MODE, MessageRequestModes)
        self.file = JsonFile(self._json, self.serialized, clock=clock, seconds=_PERSIST_SECONDS)
        self.modes: dict[str, dict[str, MessageRequestMode]] = {}
        # Number of changes since the start.
        self.version = 0

    def load(self) -> None:
        loaded = self._json.load()
        if loaded is not None:
            self.modes = loaded.message_request_mode_map

    def serialized(self) -> MessageRequestModes:
        return MessageRequestModes(self.modes)

    def set(self, mode: MessageRequestMode) -> None:
        if sum(map(len, self.modes.values())) >= _MODES_MAX:
            raise SystemBusy(f"the limit of {_MODES_MAX} message request modes is reached")
        self.modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.version += 1
        self.file.changed()

    def take_over(self, table: MessageRequestModes) -> None:
        """Apply the modes of a master: those of its topics replace ours."""
        if self.modes | table.message_request_mode_map != self.modes:
            self.modes |= table.message_request_mode_map
            self.version += 1
            self.file.changed()

    def get(self, topic: str, group: str) -> MessageRequestMode:
        configured = self.modes.get(topic, {}).get(group)
        if configured is not None:
            return configured
        mode = PULL if topic.startswith(RETRY_PREFIX) else self._config.default_message_request_mode
        shares = self._config.default_pop_share_queue_num if mode == POP else 0
        return MessageRequestMode(consumer_group=group, mode=mode, pop_share_queue_num=shares, topic=topic)


def averagely(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    """Give each member consecutive queues; the first members get one more if they do not divide evenly."""
    index, more = members.index(member), len(queues) % len(members)
    each = len(queues) // len(members)
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def by_circle(queues: Queues, members: Sequence[str], member: str) -> list[MessageQueue]:
    return list(queues[members.index(member) :: len(members)])


STRATEGIES: dict[str, Strategy] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}


def allocate(
    strategy: Strategy, queues: Iterable[MessageQueue], members: Iterable[str], member: str, mode: MessageRequestMode
) -> list[MessageQueue]:
    """Return the queues of a member; none if it is not in the group."""
    queues, members = sorted(queues, key=_java_order), sorted(set(members))
    if not queues or not members:
        return []
    if mode.mode != POP:
        return strategy(queues, members, member) if member in members else []
    shares = mode.pop_share_queue_num
    if shares <= 0 or shares >= len(members) - 1:
        # Every member pops from all queues: queue -1 of a broker stands for all of its queues.
        return list(dict.fromkeys(MessageQueue(queue.broker_name, -1, queue.topic) for queue in queues))
    if member not in members:
        return []
    index = members.index(member)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    # Its own queues, and those of the next `shares` members.
    shared = [members[(index + step) % len(members)] for step in range(shares + 1)]
    return list(dict.fromkeys(queue for other in shared for queue in strategy(queues, members, other)))


def _java_order(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id
