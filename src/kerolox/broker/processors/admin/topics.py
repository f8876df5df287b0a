"""Administration of topics."""

from collections.abc import AsyncIterator, Callable

import msgspec

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.metrics.creation_times import timed
from kerolox.broker.parts import BrokerParts
from kerolox.broker.registration.registrar import Registrar
from kerolox.broker.tables.attributes import MESSAGE_TYPE, MIXED, TOPIC_ATTRIBUTES, alter, parse
from kerolox.broker.tables.paging import page
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.broker.tables.topics import check_topic_name
from kerolox.errors import SystemFailure, TopicNotFound
from kerolox.remoting.audit import audited
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.groups import GroupList, TopicConfigList
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicConfigTable, TopicList
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

# Topics are small and decode quickly, so a list of them may have more values than other bodies.
_TOPIC_LIST = REQUEST._replace(values_max=200_000)
# Topics handled without yielding to other tasks.
_TOPICS_AT_ONCE = 1000

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_PERM_MAX = Perm.PRIORITY | Perm.READ | Perm.WRITE | Perm.INHERIT


class TopicProcessor:
    """Changes are saved, and registered with the NameServers, before the response is sent."""

    def __init__(self, parts: BrokerParts, registration: Registrar, *, on_deleted: Callable[[str], None]) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._registration = registration
        self._on_deleted = on_deleted

    @handles(h.UpdateAndCreateTopic)
    async def update(self, request: Incoming[h.UpdateAndCreateTopic]) -> Reply[Empty]:
        header = request.header
        with audited(request, f"create or change topic {header.topic}"):
            await self._put([_requested(header)])
        return Reply()

    @handles(h.UpdateAndCreateTopicList)
    async def update_list(self, request: Incoming[h.UpdateAndCreateTopicList]) -> Reply[Empty]:
        requested = TopicConfigList.decode(request.body, _TOPIC_LIST).topic_config_list
        names = ", ".join(topic.topic_name for topic in requested[:20])
        with audited(request, f"create or change {len(requested)} topics: {names}"):
            await self._put(requested)
        return Reply()

    async def _put(self, requested: list[TopicConfig]) -> None:
        """Create or change all topics, or none if one is invalid; attributes are changes such as `+key` and `-key`."""
        is_system = any([self._topics.is_system(topic.topic_name) async for topic in _portions(requested)])
        with timed(self._topics.creation_times, "true" if is_system else "false"):
            async for topic in _portions(requested):
                self._validated(topic)
            async for topic in _portions(requested):
                # Validated again, as another request may have changed the topic meanwhile.
                changed = self._validated(topic)
                if changed != self._topics.get(topic.topic_name):
                    self._topics.put(changed)
            await self._topics.file.save_for_response()
            await self._registration.wait_until_registered()

    def _validated(self, requested: TopicConfig) -> TopicConfig:
        """Check a requested topic; return it with its attribute changes applied to the current attributes."""
        check_topic_name(requested.topic_name)
        self._check_not_system(requested.topic_name)
        if requested.topic_filter_type not in _FILTER_TYPES:
            raise SystemFailure(f"topicFilterType = [{str(requested.topic_filter_type)[:100]}] value invalid")
        for queues in (requested.read_queue_nums, requested.write_queue_nums):
            if not 0 <= queues <= self._config.topic_queue_nums_max:
                raise InvalidParameter(f"{queues} queues, at most {self._config.topic_queue_nums_max} allowed")
        if not 0 <= requested.perm <= _PERM_MAX:
            raise InvalidParameter(f"invalid perm {requested.perm}: expected a sum of 4 (read), 2 (write), 1 (inherit)")
        changes = requested.attributes or {}
        if changes.get(f"+{MESSAGE_TYPE}") == MIXED and not self._config.enable_mixed_message_type:
            raise InvalidParameter("MIXED message type is not supported.")
        existing = self._topics.get(requested.topic_name)
        current = None if existing is None else existing.attributes or {}
        return msgspec.structs.replace(requested, attributes=alter(TOPIC_ATTRIBUTES, current, changes))

    def _check_not_system(self, topic: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            raise InvalidParameter(f"The topic[{topic[:300]}] is conflict with system topic.")

    @handles(h.DeleteTopicInBroker)
    async def delete(self, request: Incoming[h.DeleteTopicInBroker]) -> Reply[Empty]:
        with audited(request, f"delete topic {request.header.topic}"):
            await self._delete(request.header.topic)
        return Reply()

    async def _delete(self, topic: str) -> None:
        if not topic.strip():
            raise InvalidParameter("The specified topic is blank.")
        self._check_not_system(topic)
        topics = [topic]
        if self._config.clear_retry_topic_when_delete_topic:
            topics += self._pop_retry_topics(topic)
        for name in topics:
            self._topics.delete(name)
            self._offsets.delete_topic(name)
            self._on_deleted(name)
        await self._topics.file.save_for_response()
        await self._offsets.file.save_for_response()
        try:
            await self._store.topic_cleanup.delete(topics)
        except OSError as error:
            raise SystemFailure(f"the queues of topic {topic[:300]} could not be deleted: {error}") from error

    def _pop_retry_topics(self, topic: str) -> list[str]:
        names = [
            f"{RETRY_PREFIX}{group}{separator}{topic}"
            for group in self._offsets.groups_of(topic)
            for separator in ("+", "_")
        ]
        return [name for name in names if self._topics.get(name) is not None]

    @handles(h.GetAllTopicConfig)
    def all(self, request: Incoming[h.GetAllTopicConfig]) -> Reply[h.AllTopicConfig]:
        header, topics = request.header, self._topics.topics
        version = self._topics.data_version
        if self._config.enable_split_metadata:
            size = self._config.split_metadata_size
            topics = page(topics, version, header.data_version, header.topic_seq, header.max_topic_num, size)
        body = TopicConfigTable(version, topics).encode()
        return Reply(h.AllTopicConfig(total_topic_num=len(self._topics.topics)), body)

    @handles(h.GetTopicConfig)
    def one(self, request: Incoming[h.GetTopicConfig]) -> Reply[Empty]:
        topic = self._topics.get(request.header.topic)
        if topic is None:
            raise TopicNotFound(f"No topic in this broker. topic: {request.header.topic[:300]}")
        return Reply(None, topic.encode())

    @handles(h.GetSystemTopicListFromBroker)
    def system_topics(self, request: Incoming[h.GetSystemTopicListFromBroker]) -> Reply[Empty]:
        return Reply(None, TopicList(sorted(self._topics.system_names())).encode())

    @handles(h.QueryTopicConsumeByWho)
    def consumers(self, request: Incoming[h.QueryTopicConsumeByWho]) -> Reply[Empty]:
        topic = request.header.topic
        groups = {name for name, group in self._clients.consumers.items() if topic in group.subscriptions}
        return Reply(None, GroupList(sorted(groups | set(self._offsets.groups_of(topic)))).encode())


def _requested(header: h.UpdateAndCreateTopic) -> TopicConfig:
    return TopicConfig(
        attributes=parse(header.attributes),
        order=header.order,
        perm=header.perm,
        read_queue_nums=header.read_queue_nums,
        topic_filter_type=header.topic_filter_type,
        topic_name=header.topic,
        topic_sys_flag=header.topic_sys_flag or 0,
        write_queue_nums=header.write_queue_nums,
    )


def _portions(topics: list[TopicConfig]) -> AsyncIterator[TopicConfig]:
    return in_turns(topics, count=_TOPICS_AT_ONCE)
