"""Consumer offsets: the next offset to consume, by group, topic and queue (ConsumerOffsetManager)."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.json_file import JsonFile, bump
from kerolox.broker.tables.system_topics import HALF_TOPIC, OP_TOPIC, REVIVE_GROUP, TRANSACTION_GROUP, revive_topic
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import CONSUMER_OFFSET, JsonTable
from kerolox.wire.bodies.offsets import ConsumerOffsetTable
from kerolox.wire.bodies.topics import DataVersion
from kerolox.wire.integers import Int64

log = logging.getLogger(__name__)

# A limit that RocketMQ does not have. The broker's own offsets are exempt, so that clients cannot use up their room.
_OFFSETS_MAX = 2_000_000


class OffsetFile(ConsumerOffsetTable):
    """consumerOffset.json.

    RocketMQ ignores the last field and drops it when it writes the file, as it should: the field would not be true of
    a file that RocketMQ wrote.
    """

    # The table includes the pop checkpoints below this physical offset of the commit log.
    pop_position: Int64 | None = msgspec.field(name="keroloxPopPosition", default=None)


class ConsumerOffsets:
    """The committed offset of each group and queue. A lower offset may replace a higher one: consumers may go back."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / CONSUMER_OFFSET, OffsetFile)
        seconds = config.flush_consumer_offset_interval / 1000
        self.file = JsonFile(
            self._json, self._snapshot, clock=clock, seconds=seconds, is_copied=True, prepare=self._settle_pops
        )
        # `topic@group` → queue → offset.
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        # Offsets that an operator has reset a group to, until the group's next pull.
        self.resets: dict[str, dict[int, int]] = {}
        # As loaded; None if the file does not contain it.
        self.pop_position: int | None = None
        self._pops: tuple[Callable[[], Awaitable[None]], Callable[[], int]] | None = None
        self._count = 0
        # `topic@group` → counter of the version that its last change made, in order of the changes; complete from
        # `_changes_from` on.
        self._changes: dict[str, int] = {}
        self._changes_from = 0
        self._exempt = {f"{revive_topic(config)}@{REVIVE_GROUP}"}
        self._exempt |= {f"{topic}@{TRANSACTION_GROUP}" for topic in (HALF_TOPIC, OP_TOPIC)}

    def load(self, *, has_messages: bool = False) -> None:
        """Read the file; warn if it is missing although the store has messages."""
        loaded = self._json.load()
        if loaded is None and has_messages:
            log.warning("%s is missing: groups start at their consumers' consumeFromWhere", self._json.path)
        if loaded is not None:
            self.table, self.data_version = loaded.offset_table, loaded.data_version
            self.pop_position = loaded.pop_position
            self._count = sum(map(len, self.table.values()))
        self._changes_from = self.data_version.counter

    def limit(self, queue_ends: Mapping[tuple[str, int], int], log_end_offset: int) -> None:
        """Lower offsets beyond the end of their queue, and save them at once; OSError if that fails.

        The end of a log is lost when its machine loses power, or cut when it differs from that of a new master. A group
        with a higher offset would skip the messages that get these offsets next.
        """
        lowered = 0
        for key, offsets in self.table.items():
            topic = key.partition("@")[0]
            for queue_id, offset in offsets.items():
                end = queue_ends.get((topic, queue_id), offset)
                if offset > end:
                    offsets[queue_id] = end
                    lowered += 1
        is_position_beyond = self.pop_position is not None and self.pop_position > log_end_offset
        if is_position_beyond:
            self.pop_position = log_end_offset
        if lowered or is_position_beyond:
            log.warning("%d consumer offsets were beyond the end of their queues and are lowered to it", lowered)
            bump(self.data_version, self._clock.millis())
            self._changes_from = self.data_version.counter
            snapshot = OffsetFile(self.data_version, self.table, self.pop_position)
            self._json.save(self._json.encode(snapshot))

    def track_pops(self, settle: Callable[[], Awaitable[None]], position: Callable[[], int]) -> None:
        """Await `settle` before each save, and save `position()` with the table. Called once during assembly."""
        self._pops = settle, position

    async def _settle_pops(self) -> None:
        if self._pops is not None:
            await self._pops[0]()

    def serialized(self) -> ConsumerOffsetTable:
        return ConsumerOffsetTable(self.data_version, self.table)

    def _snapshot(self) -> OffsetFile:
        table = {key: dict(offsets) for key, offsets in self.table.items()}
        return OffsetFile(msgspec.structs.replace(self.data_version), table, self.saved_pop_position())

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset of the group: the pending reset if there is one, else the committed offset."""
        key = f"{topic}@{group}"
        if self.is_reset(group, topic, queue_id):
            return self.resets[key][queue_id]
        return self.table.get(key, {}).get(queue_id)

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether a reset is pending that the group has not received yet; until then its commits are ignored."""
        return self._config.use_server_side_reset_offset and queue_id in self.resets.get(f"{topic}@{group}", ())

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Set the committed offset; return False and ignore it while a reset is pending."""
        if self.resets and self.is_reset(group, topic, queue_id):
            return False
        self._put(f"{topic}@{group}", queue_id, offset)
        return True

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Make a group continue at an offset: its next pull gets it, and commits are ignored until then."""
        key = f"{topic}@{group}"
        self._put(key, queue_id, offset)
        self.resets.setdefault(key, {})[queue_id] = offset

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Remove and return the pending reset of a queue; None if there is none."""
        key = f"{topic}@{group}"
        by_queue = self.resets.get(key)
        if by_queue is None:
            return None
        offset = by_queue.pop(queue_id, None)
        if not by_queue:
            del self.resets[key]
        return offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of one group for a topic to another group."""
        for queue_id, offset in list(self.table.get(f"{topic}@{source}", {}).items()):
            self._put(f"{topic}@{target}", queue_id, offset)

    def _put(self, key: str, queue_id: int, offset: int) -> None:
        offsets = self.table.get(key, {})
        if queue_id not in offsets:
            if self._count >= _OFFSETS_MAX and key not in self._exempt:
                raise SystemBusy(f"{self._count} consumer offsets, at most {_OFFSETS_MAX} allowed")
            self._count += 1
            self.table[key] = offsets
        known = offsets.get(queue_id)
        if known != offset:
            if known is not None and offset < known:
                # The offset goes back. Until that is saved, a crash would undo it: recovery replays the pop checkpoints
                # of messages popped before.
                self.file.save_soon()
            offsets[queue_id] = offset
            bump(self.data_version, self._clock.millis())
            self._changes.pop(key, None)
            self._changes[key] = self.data_version.counter
            self.file.changed()

    # Copies for slaves

    def changes_since(self, version: DataVersion, *, count_max: int) -> dict[str, dict[int, int]] | None:
        """Return the offsets of the keys that have changed since a version of this table.

        None if these are more than `count_max` offsets, if any were deleted, or if the table never had this version.
        """
        counter, current = version.counter, self.data_version
        if version.state_version != current.state_version or not self._changes_from <= counter <= current.counter:
            return None
        found: dict[str, dict[int, int]] = {}
        count = 0
        for key, changed_at in reversed(self._changes.items()):
            if changed_at <= counter:
                break
            found[key] = self.table[key]
            count += len(found[key])
            if count > count_max:
                return None
        return found

    def saved_pop_position(self) -> int | None:
        """Return the physical offset of the log before which the table includes all pops; None if unknown."""
        return self.pop_position if self._pops is None else self._pops[1]()

    def take_over(
        self, changed: dict[str, dict[int, int]], deleted: Iterable[str], version: DataVersion, pop_position: int | None
    ) -> None:
        """Apply changes of a master's table; the table gets the master's version."""
        for key in deleted:
            self._count -= len(self.table.pop(key, ()))
        for key, offsets in changed.items():
            mine = self.table.setdefault(key, {})
            self._count += len(offsets.keys() - mine.keys())
            mine.update(offsets)
        self.data_version = msgspec.structs.replace(version)
        self.pop_position = pop_position
        self._changes.clear()
        self._changes_from = version.counter
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
            self._changes.pop(key, None)
        if keys:
            bump(self.data_version, self._clock.millis())
            self._changes_from = self.data_version.counter
            self.file.changed()
