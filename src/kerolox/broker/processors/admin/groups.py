"""Administration of consumer groups."""

from collections.abc import Callable

import msgspec

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.metrics.creation_times import timed
from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.attributes import GROUP_ATTRIBUTES, alter
from kerolox.broker.tables.groups import check_group_name
from kerolox.broker.tables.paging import page
from kerolox.broker.tables.topics import check_topic_name
from kerolox.remoting.audit import audited
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

# Groups handled without yielding to other tasks.
_GROUPS_AT_ONCE = 500


class GroupProcessor:
    """Changes are saved before the response is sent."""

    def __init__(self, parts: BrokerParts, *, on_deleted: Callable[[str], None]) -> None:
        self._config = parts.config
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._on_deleted = on_deleted

    @handles(h.UpdateAndCreateSubscriptionGroup)
    async def update(self, request: Incoming[h.UpdateAndCreateSubscriptionGroup]) -> Reply[Empty]:
        requested = SubscriptionGroupConfig.decode(request.body, REQUEST)
        with audited(request, f"create or change group {requested.group_name}"):
            await self._put([requested])
        return Reply()

    @handles(h.UpdateAndCreateSubscriptionGroupList)
    async def update_list(self, request: Incoming[h.UpdateAndCreateSubscriptionGroupList]) -> Reply[Empty]:
        requested = SubscriptionGroupList.decode(request.body, REQUEST).group_config_list
        names = ", ".join(group.group_name for group in requested[:20])
        with audited(request, f"create or change {len(requested)} groups: {names}"):
            await self._put(requested)
        return Reply()

    async def _put(self, requested: list[SubscriptionGroupConfig]) -> None:
        """Create or change all groups, or none if one is invalid; attributes are changes such as `+key` and `-key`."""
        with timed(self._groups.creation_times):
            async for group in in_turns(requested, count=_GROUPS_AT_ONCE):
                self._validated(group)
            async for group in in_turns(requested, count=_GROUPS_AT_ONCE):
                # Validated again, as another request may have changed the group meanwhile.
                self._groups.put(self._validated(group))
            await self._groups.file.save_for_response()

    def _validated(self, requested: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Check a requested group; return it with its attribute changes applied to the current attributes."""
        check_group_name(requested.group_name)
        # Also the number of queues of the retry topic.
        queues, queues_max = requested.retry_queue_nums, self._config.topic_queue_nums_max
        if not 0 <= queues <= queues_max:
            raise InvalidParameter(f"retryQueueNums={queues}: from 0 to {queues_max} (topicQueueNumsMax) allowed")
        existing = self._groups.groups.get(requested.group_name)
        current = None if existing is None else existing.attributes or {}
        attributes = alter(GROUP_ATTRIBUTES, current, requested.attributes or {})
        return msgspec.structs.replace(requested, attributes=attributes)

    @handles(h.GetAllSubscriptionGroupConfig)
    def all(self, request: Incoming[h.GetAllSubscriptionGroupConfig]) -> Reply[h.AllSubscriptionGroups]:
        header, groups, forbidden = request.header, self._groups.groups, self._groups.forbidden
        version = self._groups.data_version
        if self._config.enable_split_metadata:
            size = self._config.split_metadata_size
            groups = page(groups, version, header.data_version, header.group_seq, header.max_group_num, size)
            forbidden = {group: topics for group, topics in forbidden.items() if group in groups}
        body = SubscriptionGroupTable(version, forbidden, groups).encode()
        return Reply(h.AllSubscriptionGroups(total_group_num=len(self._groups.groups)), body)

    @handles(h.GetSubscriptionGroupConfig)
    def one(self, request: Incoming[h.GetSubscriptionGroupConfig]) -> Reply[Empty]:
        group = self._groups.get(request.header.group)
        if group is None:
            raise GroupNotFound("No group in this broker")
        return Reply(None, group.encode())

    @handles(h.DeleteSubscriptionGroup)
    async def delete(self, request: Incoming[h.DeleteSubscriptionGroup]) -> Reply[Empty]:
        header = request.header
        with audited(request, f"delete group {header.group_name}"):
            self._groups.delete(header.group_name)
            self._on_deleted(header.group_name)
            await self._groups.file.save_for_response()
            if header.clean_offset or header.remove_offset:
                self._offsets.delete_group(header.group_name)
                await self._offsets.file.save_for_response()
        return Reply()

    @handles(h.UpdateAndGetGroupForbidden)
    async def forbid(self, request: Incoming[h.UpdateAndGetGroupForbidden]) -> Reply[Empty]:
        group, topic, readable = request.header.group, request.header.topic, request.header.readable
        if readable is not None:
            check_group_name(group)
            check_topic_name(topic)
            self._groups.forbid_reading(group, topic, not readable)
            await self._groups.file.save_for_response()
        is_readable = self._groups.is_readable(group, topic)
        return Reply(None, GroupForbidden(group=group, readable=is_readable, topic=topic).encode())
