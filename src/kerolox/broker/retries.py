"""Where messages go that could not be consumed: to be tried again, or to the dead letters."""

import msgspec

from kerolox.broker.errors import GroupNotFound
from kerolox.broker.groups import GroupTable
from kerolox.broker.locks import QueueLocks
from kerolox.broker.system_topics import DLQ_PREFIX, RETRY_PREFIX
from kerolox.broker.topics import TopicTable, check_topic_name
from kerolox.message import names
from kerolox.message.message import Message
from kerolox.message.properties import mark, put
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.topics import TopicConfig

DELAY_MARK = mark(names.DELAY)

# Clients from 3.4.9 on say themselves how often a message is to be tried.
_TIMES_SINCE_VERSION = 121
# Between group and topic in the names of retry topics of popping consumers.
_POP_RETRY_SEPARATOR = "+"


class Retries:
    def __init__(self, topics: TopicTable, groups: GroupTable, locks: QueueLocks) -> None:
        self._topics = topics
        self._groups = groups
        self._locks = locks

    def group(self, name: str) -> SubscriptionGroupConfig:
        group = self._groups.get(name)
        if group is None:
            raise GroupNotFound(f"subscription group not exist, {name}")
        return group

    async def redirected(self, message: Message, version: int, max_times: int | None) -> Message:
        """Returns a message that was sent to a retry topic, for the dead letters if it has been tried often enough.

        That is the rule of 5.x, for clients of all versions: one more time than 4.x would, which is what clients of
        both count on when they send instead of giving a message back. A group that consumes in order has tried on
        its own, so that what it sends is dead.
        """
        group = self.group(group_of(message.topic))
        times = times_max(group, version, max_times)
        if message.reconsume_times <= times and not self._locks.is_locked(group.group_name):
            return message
        dead = await self.dead_letters(group.group_name)
        properties = put(message.properties, DELAY_MARK, b"-1")
        return msgspec.structs.replace(message, topic=dead.topic_name, queue_id=0, properties=properties)

    async def dead_letters(self, group: str) -> TopicConfig:
        """Returns the topic of a group's dead letters, made if there is none."""
        return await self.topic(DLQ_PREFIX + group, 1)

    async def topic(self, name: str, queue_nums: int, sys_flag: int = 0) -> TopicConfig:
        found = self._topics.get(name)
        if found is None:
            check_topic_name(name)
            found = self._topics.create(name, queue_nums, sys_flag=sys_flag)
            await self._topics.file.save()
        return found


def times_max(group: SubscriptionGroupConfig, version: int, wanted: int | None) -> int:
    """Returns how often a message is tried again."""
    return wanted if wanted is not None and version >= _TIMES_SINCE_VERSION else group.retry_max_times


def group_of(retry_topic: str) -> str:
    """Returns the group whose retries a topic holds."""
    name = retry_topic.removeprefix(RETRY_PREFIX)
    group, separator, topic = name.partition(_POP_RETRY_SEPARATOR)
    return group if separator and _POP_RETRY_SEPARATOR not in topic else name
