"""Retry topics and dead letter queues of consumer groups."""

import msgspec

from kerolox.broker.errors import GroupNotFound
from kerolox.broker.tables.groups import GroupTable
from kerolox.broker.tables.queue_locks import QueueLocks
from kerolox.broker.tables.system_topics import DLQ_PREFIX, RETRY_PREFIX
from kerolox.broker.tables.topics import TopicTable, check_topic_name
from kerolox.message import property_names
from kerolox.message.message import Message
from kerolox.message.properties import mark, put
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.topics import TopicConfig

DELAY_MARK = mark(property_names.DELAY)

# Clients from 3.4.9 on send the maximum number of retries themselves.
_TIMES_SINCE_VERSION = 121
# Separates group and topic in the names of POP retry topics.
_POP_RETRY_SEPARATOR = "+"


class RetryTopics:
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
        """Return a message for a retry topic, redirected to the dead letter queue if its retries are used up.

        This is the rule of 5.x for clients of all versions: one retry more than in 4.x. Clients of both rely on it when
        they send a message to the retry topic instead of sending it back. A group that consumes orderly has retried on
        its own, so its messages are dead letters.
        """
        group = self.group(group_of(message.topic))
        times = times_max(group, version, max_times)
        if message.reconsume_times <= times and not self._locks.is_locked(group.group_name):
            return message
        dead = await self.dead_letters(group.group_name)
        properties = put(message.properties, DELAY_MARK, b"-1")
        return msgspec.structs.replace(message, topic=dead.topic_name, queue_id=0, properties=properties)

    async def dead_letters(self, group: str) -> TopicConfig:
        """Return the dead letter topic of a group, and create it if necessary."""
        return await self.topic(DLQ_PREFIX + group, 1)

    async def topic(self, name: str, queue_nums: int, sys_flag: int = 0) -> TopicConfig:
        found = self._topics.get(name)
        if found is None:
            check_topic_name(name)
            found = self._topics.create(name, queue_nums, sys_flag=sys_flag)
            await self._topics.file.save()
        return found


def times_max(group: SubscriptionGroupConfig, version: int, wanted: int | None) -> int:
    """Return the maximum number of retries of a message."""
    return wanted if wanted is not None and version >= _TIMES_SINCE_VERSION else group.retry_max_times


def group_of(retry_topic: str) -> str:
    """Return the group of a retry topic."""
    name = retry_topic.removeprefix(RETRY_PREFIX)
    group, separator, topic = name.partition(_POP_RETRY_SEPARATOR)
    return group if separator and _POP_RETRY_SEPARATOR not in topic else name
