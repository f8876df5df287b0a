"""The consumer groups a broker knows."""

import re
from pathlib import Path

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.creation import creation_times
from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.persistence import Kept, bump
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import SUBSCRIPTION_GROUP, JsonTable
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.topics import DataVersion

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_LENGTH_MAX = 120
_PERSIST_SECONDS = 10
# Bounds the original does not have: of one group, and of all of them.
_FORBIDDEN_TOPICS_MAX = 1000
_FORBIDDEN_MAX = 100_000

# The original counts bits by the index of the permission.
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
    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / SUBSCRIPTION_GROUP, SubscriptionGroupTable)
        self.file = Kept(self._json, self._snapshot, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.groups: dict[str, SubscriptionGroupConfig] = {}
        # By group and topic, bits of what is forbidden.
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()
        # How long it takes an operator to make or change one.
        self.creation_times = creation_times()

    def load(self) -> None:
        loaded = self._json.load()
        if loaded is not None:
            self.groups, self.data_version = loaded.subscription_group_table, loaded.data_version
            self.forbidden = loaded.forbidden_table or {}
        for name in _SYSTEM:
            self.groups.setdefault(name, SubscriptionGroupConfig(group_name=name))
        if loaded is None:
            # Those a broker has anyway are no change: as in the original, the version begins with the first that is.
            self.file.changed()

    def serialized(self) -> SubscriptionGroupTable:
        return SubscriptionGroupTable(self.data_version, self.forbidden, self.groups)

    def _snapshot(self) -> SubscriptionGroupTable:
        forbidden = {group: dict(topics) for group, topics in self.forbidden.items()}
        return SubscriptionGroupTable(msgspec.structs.replace(self.data_version), forbidden, dict(self.groups))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Returns the group, making it if that is allowed; None if it is unknown, or no group can have this name."""
        found = self.groups.get(group)
        if found is None and (self._config.auto_create_subscription_group or is_system_group(group)):
            if _complaint(group) is not None:
                return None
            found = SubscriptionGroupConfig(group_name=group)
            self.put(found)
        return found

    def find(self, group: str) -> SubscriptionGroupConfig:
        found = self.get(group)
        if found is None:
            raise GroupNotFound(f"subscription group [{group}] does not exist")
        return found

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Makes the group, or changes it by putting another in its place; what is in the table is never changed."""
        check_group_name(group.group_name)
        if group.group_name not in self.groups and len(self.groups) >= self._config.group_nums_max:
            raise SystemBusy(f"{len(self.groups)} groups, at most {self._config.group_nums_max} allowed")
        self.groups[group.group_name] = group
        self._changed()

    def delete(self, group: str) -> bool:
        self.forbidden.pop(group, None)
        if self.groups.pop(group, None) is None:
            return False
        self._changed()
        return True

    def is_readable(self, group: str, topic: str) -> bool:
        """Whether the group may consume the topic, as far as nobody has forbidden it."""
        return not self.forbidden.get(group, {}).get(topic, 0) & _READ_BIT

    def forbid_reading(self, group: str, topic: str, is_forbidden: bool) -> None:
        """Forbids a group to consume a topic, or no longer does."""
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
        """SystemBusy if not one more topic may be forbidden to a group that has so many."""
        if count >= _FORBIDDEN_TOPICS_MAX:
            raise SystemBusy(f"{count} topics are forbidden to group {group}, at most {_FORBIDDEN_TOPICS_MAX}")
        # Asked for by an operator now and then, and not kept as a number.
        total = sum(map(len, self.forbidden.values()))
        if total >= _FORBIDDEN_MAX:
            raise SystemBusy(
                f"{total} topics are forbidden to groups, at most {_FORBIDDEN_MAX} in all: allow some first"
            )

    def _changed(self) -> None:
        bump(self.data_version, self._clock.millis())
        self.file.changed()


def check_group_name(group: str) -> None:
    """InvalidParameter, in the original's words, if no group can have this name."""
    complaint = _complaint(group)
    if complaint is not None:
        raise InvalidParameter(complaint)


def _complaint(group: str) -> str | None:
    if not group.strip():
        return "The specified group is blank."
    if len(group) > _LENGTH_MAX:
        return f"The specified group: {group[:300]}, is longer than group max length: {_LENGTH_MAX}"
    if not _NAME.fullmatch(group):
        return f"The specified group: {group}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    return None


def is_system_group(group: str) -> bool:
    return group in _SYSTEM or group.startswith(_SYSTEM_PREFIX)
