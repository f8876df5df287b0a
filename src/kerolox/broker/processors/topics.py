"""Topics as an operator makes, changes, deletes and lists them."""

import logging
from collections.abc import Callable

import msgspec

from kerolox.broker.attributes import MESSAGE_TYPE, MIXED, TOPIC_ATTRIBUTES, alter, parse
from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.creation import timed
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.paging import page
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.broker.topics import TopicTable, check_topic_name
from kerolox.errors import SystemFailure, TopicNotFound
from kerolox.remoting.routes import Incoming, handles
from kerolox.store.store import Store
from kerolox.wire.bodies.groups import GroupList, TopicConfigList
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicConfigTable, TopicList
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_PERM_MAX = Perm.PRIORITY | Perm.READ | Perm.WRITE | Perm.INHERIT


class TopicProcessor:
    """What was changed is in the file before it is answered."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        on_deleted: Callable[[str], None],
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clients = clients
        self._on_deleted = on_deleted

    @handles(h.UpdateAndCreateTopic)
    async def update(self, request: Incoming[h.UpdateAndCreateTopic]) -> Reply[Empty]:
        header = request.header
        wanted = TopicConfig(
            attributes=parse(header.attributes),
            order=header.order,
            perm=header.perm,
            read_queue_nums=header.read_queue_nums,
            topic_filter_type=header.topic_filter_type,
            topic_name=header.topic,
            topic_sys_flag=header.topic_sys_flag or 0,
            write_queue_nums=header.write_queue_nums,
        )
        log.info("%s makes or changes topic %s", request.connection.remote, header.topic[:300])
        await self._put([wanted])
        return Reply()

    @handles(h.UpdateAndCreateTopicList)
    async def update_list(self, request: Incoming[h.UpdateAndCreateTopicList]) -> Reply[Empty]:
        wanted = TopicConfigList.decode(request.body).topic_config_list
        log.info("%s makes or changes %d topics", request.connection.remote, len(wanted))
        await self._put(wanted)
        return Reply()

    async def _put(self, wanted: list[TopicConfig]) -> None:
        """Makes or changes all of them, or none if one cannot be; their attributes are changes, each with its sign."""
        is_system = any(self._topics.is_system(topic.topic_name) for topic in wanted)
        with timed(self._topics.creation_times, "true" if is_system else "false"):
            for topic in [self._altered(topic) for topic in wanted]:
                if topic != self._topics.get(topic.topic_name):
                    self._topics.put(topic)
            await self._topics.file.kept()

    def _altered(self, wanted: TopicConfig) -> TopicConfig:
        check_topic_name(wanted.topic_name)
        self._check_not_system(wanted.topic_name)
        if wanted.topic_filter_type not in _FILTER_TYPES:
            raise SystemFailure(f"topicFilterType = [{str(wanted.topic_filter_type)[:100]}] value invalid")
        for queues in (wanted.read_queue_nums, wanted.write_queue_nums):
            if not 0 <= queues <= self._config.topic_queue_nums_max:
                raise InvalidParameter(f"{queues} queues, at most {self._config.topic_queue_nums_max} allowed")
        if not 0 <= wanted.perm <= _PERM_MAX:
            raise InvalidParameter(f"perm {wanted.perm} is none: expected a sum of 4 (read), 2 (write), 1 (inherit)")
        changes = wanted.attributes or {}
        if changes.get(f"+{MESSAGE_TYPE}") == MIXED and not self._config.enable_mixed_message_type:
            raise InvalidParameter("MIXED message type is not supported.")
        known = self._topics.get(wanted.topic_name)
        current = None if known is None else known.attributes or {}
        return msgspec.structs.replace(wanted, attributes=alter(TOPIC_ATTRIBUTES, current, changes))

    def _check_not_system(self, topic: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(topic):
            raise InvalidParameter(f"The topic[{topic[:300]}] is conflict with system topic.")

    @handles(h.DeleteTopicInBroker)
    async def delete(self, request: Incoming[h.DeleteTopicInBroker]) -> Reply[Empty]:
        topic = request.header.topic
        if not topic.strip():
            raise InvalidParameter("The specified topic is blank.")
        self._check_not_system(topic)
        log.info("%s deletes topic %s", request.connection.remote, topic[:300])
        topics = [topic]
        if self._config.clear_retry_topic_when_delete_topic:
            topics += self._pop_retry_topics(topic)
        for name in topics:
            self._topics.delete(name)
            self._offsets.delete_topic(name)
            self._on_deleted(name)
        await self._topics.file.kept()
        await self._offsets.file.kept()
        try:
            await self._store.topics.delete(topics)
        except OSError as error:
            raise SystemFailure(f"the queues of topic {topic[:300]} could not be deleted: {error}") from error
        return Reply()

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
        found = self._topics.get(request.header.topic)
        if found is None:
            raise TopicNotFound(f"No topic in this broker. topic: {request.header.topic[:300]}")
        return Reply(None, found.encode())

    @handles(h.GetSystemTopicListFromBroker)
    def system_topics(self, request: Incoming[h.GetSystemTopicListFromBroker]) -> Reply[Empty]:
        return Reply(None, TopicList(sorted(self._topics.system_names())).encode())

    @handles(h.QueryTopicConsumeByWho)
    def consumers(self, request: Incoming[h.QueryTopicConsumeByWho]) -> Reply[Empty]:
        topic = request.header.topic
        groups = {name for name, group in self._clients.consumers.items() if topic in group.subscriptions}
        return Reply(None, GroupList(sorted(groups | set(self._offsets.groups_of(topic)))).encode())
