"""Consumer groups as an operator makes, changes, deletes and lists them."""

import logging
from collections.abc import Callable

import msgspec

from kerolox.broker.attributes import GROUP_ATTRIBUTES, alter
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.creation import timed
from kerolox.broker.errors import GroupNotFound
from kerolox.broker.groups import GroupTable, check_group_name
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.paging import page
from kerolox.broker.topics import check_topic_name
from kerolox.remoting.routes import Incoming, handles
from kerolox.wire.bodies.groups import (
    GroupForbidden,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupTable,
)
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class GroupProcessor:
    """What was changed is in the file before it is answered."""

    def __init__(
        self, config: BrokerConfig, groups: GroupTable, offsets: ConsumerOffsets, on_deleted: Callable[[str], None]
    ) -> None:
        self._config = config
        self._groups = groups
        self._offsets = offsets
        self._on_deleted = on_deleted

    @handles(h.UpdateAndCreateSubscriptionGroup)
    async def update(self, request: Incoming[h.UpdateAndCreateSubscriptionGroup]) -> Reply[Empty]:
        wanted = SubscriptionGroupConfig.decode(request.body)
        log.info("%s makes or changes group %s", request.connection.remote, wanted.group_name[:300])
        await self._put([wanted])
        return Reply()

    @handles(h.UpdateAndCreateSubscriptionGroupList)
    async def update_list(self, request: Incoming[h.UpdateAndCreateSubscriptionGroupList]) -> Reply[Empty]:
        wanted = SubscriptionGroupList.decode(request.body).group_config_list
        log.info("%s makes or changes %d groups", request.connection.remote, len(wanted))
        await self._put(wanted)
        return Reply()

    async def _put(self, wanted: list[SubscriptionGroupConfig]) -> None:
        """Makes or changes all of them, or none if one cannot be; their attributes are changes, each with its sign."""
        with timed(self._groups.creation_times):
            for group in [self._altered(group) for group in wanted]:
                self._groups.put(group)
            await self._groups.file.kept()

    def _altered(self, wanted: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        check_group_name(wanted.group_name)
        known = self._groups.groups.get(wanted.group_name)
        current = None if known is None else known.attributes or {}
        attributes = alter(GROUP_ATTRIBUTES, current, wanted.attributes or {})
        return msgspec.structs.replace(wanted, attributes=attributes)

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
        found = self._groups.get(request.header.group)
        if found is None:
            raise GroupNotFound("No group in this broker")
        return Reply(None, found.encode())

    @handles(h.DeleteSubscriptionGroup)
    async def delete(self, request: Incoming[h.DeleteSubscriptionGroup]) -> Reply[Empty]:
        header = request.header
        log.info("%s deletes group %s", request.connection.remote, header.group_name[:300])
        self._groups.delete(header.group_name)
        self._on_deleted(header.group_name)
        await self._groups.file.kept()
        if header.clean_offset or header.remove_offset:
            self._offsets.delete_group(header.group_name)
            await self._offsets.file.kept()
        return Reply()

    @handles(h.UpdateAndGetGroupForbidden)
    async def forbid(self, request: Incoming[h.UpdateAndGetGroupForbidden]) -> Reply[Empty]:
        group, topic, readable = request.header.group, request.header.topic, request.header.readable
        if readable is not None:
            check_group_name(group)
            check_topic_name(topic)
            self._groups.forbid_reading(group, topic, not readable)
            await self._groups.file.kept()
        is_readable = self._groups.is_readable(group, topic)
        return Reply(None, GroupForbidden(group=group, readable=is_readable, topic=topic).encode())
