"""How far each group has come in each queue."""

from pathlib import Path

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.persistence import Kept, bump
from kerolox.broker.system_topics import HALF_TOPIC, OP_TOPIC, REVIVE_GROUP, TRANSACTION_GROUP, revive_topic
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import CONSUMER_OFFSET, JsonTable
from kerolox.wire.bodies.offsets import ConsumerOffsetTable
from kerolox.wire.bodies.topics import DataVersion

# A bound the original does not have. It leaves out what the broker itself consumes: nobody may take its place.
_OFFSETS_MAX = 2_000_000


class ConsumerOffsets:
    """The next offset to be consumed. Lower ones overwrite higher ones, as consumers may go back."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_OFFSET, ConsumerOffsetTable)
        seconds = config.flush_consumer_offset_interval / 1000
        self.file = Kept(self._json, self._snapshot, clock=clock, seconds=seconds, is_copied=True)
        # By `topic@group`, then by queue.
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        # Offsets that a group was set to and has not yet been told.
        self.resets: dict[str, dict[int, int]] = {}
        self._count = 0
        self._own = {f"{revive_topic(config)}@{REVIVE_GROUP}"}
        self._own |= {f"{topic}@{TRANSACTION_GROUP}" for topic in (HALF_TOPIC, OP_TOPIC)}

    def load(self) -> None:
        loaded = self._json.load()
        if loaded is not None:
            self.table, self.data_version = loaded.offset_table, loaded.data_version
            self._count = sum(map(len, self.table.values()))

    def serialized(self) -> ConsumerOffsetTable:
        return ConsumerOffsetTable(self.data_version, self.table)

    def _snapshot(self) -> ConsumerOffsetTable:
        table = {key: dict(offsets) for key, offsets in self.table.items()}
        return ConsumerOffsetTable(msgspec.structs.replace(self.data_version), table)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns where the group goes on: where it was set to, or as far as it has come."""
        key = f"{topic}@{group}"
        if self.is_reset(group, topic, queue_id):
            return self.resets[key][queue_id]
        return self.table.get(key, {}).get(queue_id)

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether the group was set to an offset that it does not know of yet; what it commits does not count."""
        return self._config.use_server_side_reset_offset and queue_id in self.resets.get(f"{topic}@{group}", ())

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Notes how far a group has come; False, and nothing, if it is to go on elsewhere and was not told yet."""
        if self.resets and self.is_reset(group, topic, queue_id):
            return False
        self._put(f"{topic}@{group}", queue_id, offset)
        return True

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Has a group go on at an offset: its next pull is told so, and until then its commits do not count."""
        key = f"{topic}@{group}"
        self._put(key, queue_id, offset)
        self.resets.setdefault(key, {})[queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Returns where the group is to go on, once; None if it was not told to."""
        key = f"{topic}@{group}"
        of_queues = self.resets.get(key)
        if of_queues is None:
            return None
        offset = of_queues.pop(queue_id, None)
        if not of_queues:
            del self.resets[key]
        return offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """Has one group stand where another does."""
        for queue_id, offset in list(self.table.get(f"{topic}@{source}", {}).items()):
            self._put(f"{topic}@{target}", queue_id, offset)

    def _put(self, key: str, queue_id: int, offset: int) -> None:
        offsets = self.table.get(key, {})
        if queue_id not in offsets:
            if self._count >= _OFFSETS_MAX and key not in self._own:
                raise SystemBusy(f"{self._count} consumer offsets, at most {_OFFSETS_MAX} allowed")
            self._count += 1
            self.table[key] = offsets
        if offsets.get(queue_id) != offset:
            offsets[queue_id] = offset
            bump(self.data_version, self._clock.millis())
            self.file.changed()

    def topics_of(self, group: str) -> list[str]:
        # Neither a topic nor a group can have an @ in its name.
        suffix = f"@{group}"
        return [key.removesuffix(suffix) for key in self.table if key.endswith(suffix)]

    def groups_of(self, topic: str) -> list[str]:
        prefix = f"{topic}@"
        return [key.removeprefix(prefix) for key in self.table if key.startswith(prefix)]

    def delete_topic(self, topic: str) -> None:
        self._delete([f"{of_topic}@{group}" for of_topic, group in self._keys() if of_topic == topic])

    def delete_group(self, group: str) -> None:
        self._delete([f"{topic}@{of_group}" for topic, of_group in self._keys() if of_group == group])

    def _keys(self) -> list[tuple[str, str]]:
        return [(topic, group) for topic, _, group in (key.partition("@") for key in self.table)]

    def _delete(self, keys: list[str]) -> None:
        for key in keys:
            self._count -= len(self.table.pop(key))
            self.resets.pop(key, None)
        if keys:
            bump(self.data_version, self._clock.millis())
            self.file.changed()
