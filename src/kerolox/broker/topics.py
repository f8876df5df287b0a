"""The topics a broker has, and how new ones come to be."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.creation import creation_times
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.persistence import Kept, bump
from kerolox.broker.system_topics import (
    ALWAYS,
    DLQ_PREFIX,
    RETRY_PREFIX,
    TEMPLATE_TOPIC,
    is_system_topic,
    system_topics,
)
from kerolox.errors import SystemBusy, TopicNotFound
from kerolox.message.record import GROUP_TOPIC_SIZE_MAX, TOPIC_SIZE_MAX
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.tables import TOPICS, JsonTable
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable, TopicSysFlag

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_PERSIST_SECONDS = 10


class TopicTable:
    """Whoever changes it awaits `file.save()` where the change must survive; NameServers are told at once."""

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._json = JsonTable(disk, directory / TOPICS, TopicConfigTable)
        self.file = Kept(self._json, self._snapshot, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.topics: dict[str, TopicConfig] = {}
        self.data_version = DataVersion()
        # The names of those it made for itself.
        self.system: frozenset[str] = frozenset()
        # How long it takes an operator to make or change one.
        self.creation_times = creation_times()
        # Told of every topic that was made or changed.
        self.on_change: Callable[[TopicConfig], None] = lambda topic: None

    def load(self) -> None:
        """Reads the file and adds what a broker always has; StoreDamaged if it cannot be read."""
        loaded = self._json.load()
        if loaded is not None:
            self.topics, self.data_version = loaded.topic_config_table, loaded.data_version
        made = list(system_topics(self._config))
        self.system = frozenset(topic.topic_name for topic in made)
        for topic in made:
            if topic.topic_name not in self.topics or topic.topic_name == TEMPLATE_TOPIC:
                self.topics[topic.topic_name] = topic
        if loaded is None:
            self._changed()

    def serialized(self) -> TopicConfigTable:
        return TopicConfigTable(self.data_version, self.topics)

    def _snapshot(self) -> TopicConfigTable:
        return TopicConfigTable(msgspec.structs.replace(self.data_version), dict(self.topics))

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def find(self, topic: str) -> TopicConfig:
        found = self.topics.get(topic)
        if found is None:
            raise TopicNotFound(f"topic[{topic}] not exist, apply first please!")
        return found

    def is_system(self, topic: str) -> bool:
        return is_system_topic(topic, self.system)

    def system_names(self) -> frozenset[str]:
        """Returns the names that are reserved; more are, by how they begin."""
        return ALWAYS | self.system

    def put(self, topic: TopicConfig) -> None:
        """Makes the topic, or changes it by putting another in its place; what is in the table is never changed."""
        if topic.topic_name not in self.topics and len(self.topics) >= self._config.topic_nums_max:
            raise SystemBusy(f"{len(self.topics)} topics, at most {self._config.topic_nums_max} allowed")
        self.topics[topic.topic_name] = topic
        self._changed()
        self.on_change(topic)

    def delete(self, topic: str) -> None:
        if self.topics.pop(topic, None) is not None:
            self._changed()

    def take_order(self, orders: Iterable[str]) -> None:
        """Marks the topics that a NameServer has an order for; none loses its mark by being left out."""
        unmarked = [topic for name in orders if (topic := self.topics.get(name)) is not None and not topic.order]
        for topic in unmarked:
            self.topics[topic.topic_name] = msgspec.structs.replace(topic, order=True)
        if unmarked:
            self._changed()

    def touch(self) -> None:
        """Gives the table another version, so that NameServers read it anew."""
        self._changed()

    def create_like(
        self, topic: str, template_name: str, queue_nums: int, *, is_unit: bool = False
    ) -> TopicConfig | None:
        """Makes an unknown topic that somebody sends to, after its template; None if the template does not allow it."""
        template = self.topics.get(template_name)
        if template is None:
            return None
        perm = template.perm
        if template_name == TEMPLATE_TOPIC and not self._config.auto_create_topic_enable:
            perm &= ~Perm.INHERIT
        if not perm & Perm.INHERIT:
            return None
        queues = max(0, min(queue_nums, template.write_queue_nums))
        made = TopicConfig(
            attributes={},
            perm=int(perm & ~Perm.INHERIT),
            read_queue_nums=queues,
            topic_filter_type=template.topic_filter_type,
            topic_name=topic,
            topic_sys_flag=int(TopicSysFlag.UNIT) if is_unit else 0,
            write_queue_nums=queues,
        )
        self.put(made)
        return made

    def create(
        self, topic: str, queue_nums: int, *, perm: int = 6, sys_flag: int = 0, is_ordered: bool = False
    ) -> TopicConfig:
        """Returns the topic, making it if there is none: those of retries, dead letters and the like."""
        found = self.topics.get(topic)
        if found is None:
            found = TopicConfig(
                attributes={},
                order=is_ordered,
                perm=perm,
                read_queue_nums=queue_nums,
                topic_name=topic,
                topic_sys_flag=sys_flag,
                write_queue_nums=queue_nums,
            )
            self.put(found)
        return found

    def _changed(self) -> None:
        bump(self.data_version, self._clock.millis())
        self.file.changed()


def check_topic_name(topic: str) -> None:
    """InvalidParameter, in the original's words, if no topic can have this name."""
    if not topic.strip():
        raise InvalidParameter("The specified topic is blank.")
    if not _NAME.fullmatch(topic):
        raise InvalidParameter(
            f"The specified topic: {topic[:300]}, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > GROUP_TOPIC_SIZE_MAX:
            raise InvalidParameter(
                f"The specified topic is DLQ or Retry topic: {topic[:300]}, "
                f"and it's longer than topic max length: {GROUP_TOPIC_SIZE_MAX}"
            )
    elif len(topic) > TOPIC_SIZE_MAX:
        raise InvalidParameter(f"The specified topic: {topic[:300]}, is longer than topic max length: {TOPIC_SIZE_MAX}")
