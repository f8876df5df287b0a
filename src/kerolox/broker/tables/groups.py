"""The settings of consumer groups (SubscriptionGroupManager)."""

import logging
import re
from pathlib import Path

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.metrics.creation_times import creation_times
from kerolox.broker.tables.json_file import JsonFile, bump
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import SUBSCRIPTION_GROUP, JsonTable
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.topics import DataVersion

log = logging.getLogger(__name__)

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_LENGTH_MAX = 120
_PERSIST_SECONDS = 10
# Forbidden topics of one group, and of all groups; RocketMQ has no limits.
_FORBIDDEN_TOPICS_PER_GROUP_MAX = 1000
_FORBIDDEN_TOPICS_TOTAL_MAX = 100_000

# Java sets the bit at PermName.INDEX_PERM_READ, which is 2.
_READ_BIT = 1 << 2

_SYSTEM_PREFIX = "CID_RMQ_SYS_"
_SYSTEM = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class GroupTable:
    """Group settings by name. A caller that changes one awaits `file.save()` if the change must survive a crash."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / SUBSCRIPTION_GROUP, SubscriptionGroupTable)
        self.file = JsonFile(self._json, self._snapshot, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        # Group → topic → bits of forbidden permissions.
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()
        # Duration of requests that create or change a group.
        self.creation_times = creation_times()

    def load(self, *, has_messages: bool = False) -> None:
        """Read the file; warn if it is missing although the store has messages."""
        loaded = self._json.load()
        if loaded is None and has_messages:
            log.warning("%s is missing: all groups have default settings", self._json.path)
        if loaded is not None:
            self.groups, self.data_version = loaded.subscription_group_table, loaded.data_version
            self.forbidden = loaded.forbidden_table or {}
        for name in _SYSTEM:
            self.groups.setdefault(name, SubscriptionGroupConfig(group_name=name))
        if loaded is None:
            # Write the file, but keep the version: as in Java, system groups do not count as a change.
            self.file.changed()

    def serialized(self) -> SubscriptionGroupTable:
        return SubscriptionGroupTable(self.data_version, self.forbidden, self.groups)

    def _snapshot(self) -> SubscriptionGroupTable:
        forbidden = {group: dict(topics) for group, topics in self.forbidden.items()}
        return SubscriptionGroupTable(msgspec.structs.replace(self.data_version), forbidden, dict(self.groups))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the group, creating it if autoCreateSubscriptionGroup allows; None if unknown or not a valid name."""
        found = self.groups.get(group)
        if found is None and (self._config.auto_create_subscription_group or is_system_group(group)):
            if _name_error(group) is not None:
                return None
            found = SubscriptionGroupConfig(group_name=group)
            self.put(found)
        return found

    def find(self, group: str) -> SubscriptionGroupConfig:
        """Like `get`, but raise GroupNotFound instead of returning None."""
        found = self.get(group)
        if found is None:
            raise GroupNotFound(f"subscription group [{group}] does not exist")
        return found

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create or replace a group. Objects in the table are never modified, since a thread may be encoding them."""
        check_group_name(group.group_name)
        if group.group_name not in self.groups and len(self.groups) >= self._config.group_nums_max:
            raise SystemBusy(f"{len(self.groups)} groups, at most {self._config.group_nums_max} allowed")
        self.groups[group.group_name] = group
        self._changed()

    def replace_all(self, table: SubscriptionGroupTable) -> None:
        """Replace all groups, and the version, by those of a master; system groups stay."""
        groups = table.subscription_group_table
        if len(groups) > self._config.group_nums_max:
            raise SystemBusy(f"the master has {len(groups)} groups, at most {self._config.group_nums_max} allowed")
        own_groups = {name: self.groups[name] for name in _SYSTEM if name in self.groups}
        self.groups, self.forbidden = own_groups | groups, table.forbidden_table or {}
        self.data_version = msgspec.structs.replace(table.data_version)
        self.file.changed()

    def delete(self, group: str) -> bool:
        self.forbidden.pop(group, None)
        if self.groups.pop(group, None) is None:
            return False
        self._changed()
        return True

    def is_readable(self, group: str, topic: str) -> bool:
        """Whether the group is not forbidden to consume the topic."""
        return not self.forbidden.get(group, {}).get(topic, 0) & _READ_BIT

    def forbid_reading(self, group: str, topic: str, is_forbidden: bool) -> None:
        """Forbid a group to consume a topic, or allow it again."""
        of_group = self.forbidden.get(group, {})
        bits = of_group.get(topic, 0)
        bits = bits | _READ_BIT if is_forbidden else bits & ~_READ_BIT
        if bits and topic not in of_group:
            self._check_forbidden(group, len(of_group))
        if bits:
            of_group[topic] = bits
        else:
            of_group.pop(topic, None)
        if of_group:
            self.forbidden[group] = of_group
        else:
            self.forbidden.pop(group, None)
        self._changed()

    def _check_forbidden(self, group: str, count: int) -> None:
        """Raise SystemBusy if a group with `count` forbidden topics must not get another one."""
        if count >= _FORBIDDEN_TOPICS_PER_GROUP_MAX:
            raise SystemBusy(
                f"{count} topics are forbidden to group {group}, at most {_FORBIDDEN_TOPICS_PER_GROUP_MAX} allowed"
            )
        # Only operators forbid topics, and rarely, so counting each time is cheap enough.
        total = sum(map(len, self.forbidden.values()))
        if total >= _FORBIDDEN_TOPICS_TOTAL_MAX:
            raise SystemBusy(
                f"{total} topics are forbidden to groups, at most {_FORBIDDEN_TOPICS_TOTAL_MAX} in total: "
                "allow some of them first"
            )

    def _changed(self) -> None:
        bump(self.data_version, self._clock.millis())
        self.file.changed()


def check_group_name(group: str) -> None:
    """Raise InvalidParameter with Java's message if this is not a valid group name."""
    error = _name_error(group)
    if error is not None:
        raise InvalidParameter(error)


def _name_error(group: str) -> str | None:
    if not group.strip():
        return "The specified group is blank."
    if len(group) > _LENGTH_MAX:
        return f"The specified group: {group[:300]}, is longer than group max length: {_LENGTH_MAX}"
    if not _NAME.fullmatch(group):
        return f"The specified group: {group}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def is_system_group(group: str) -> bool:
    return group in _SYSTEM or group.startswith(_SYSTEM_PREFIX)
