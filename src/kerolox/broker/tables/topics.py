"""The topics of a broker and how they are created (TopicConfigManager)."""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.metrics.creation_times import creation_times
from kerolox.broker.tables.json_file import JsonFile, bump
from kerolox.broker.tables.system_topics import (
    DLQ_PREFIX,
    RESERVED_TOPICS,
    RETRY_PREFIX,
    TEMPLATE_TOPIC,
    is_system_topic,
    system_topics,
)
from kerolox.errors import SystemBusy, TopicNotFound
from kerolox.message.records.record import GROUP_TOPIC_SIZE_MAX, TOPIC_SIZE_MAX
from kerolox.runtime.clock import Clock
from kerolox.runtime.files import Disk
from kerolox.store.queue.queue_types import QUEUE_TYPE, mistyped
from kerolox.store.tables import TOPICS, JsonTable
from kerolox.wire.bodies.topics import DataVersion, Perm, TopicConfig, TopicConfigTable, TopicSysFlag

log = logging.getLogger(__name__)

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_PERSIST_SECONDS = 10
_NOTHING: Mapping[str, int] = {}
_NAMES_LOGGED_MAX = 10


class TopicTable:
    """Topic settings by name. `on_change` is called for each created or changed topic.

    A caller that changes one awaits `file.save()` if the change must survive a crash.
    """

    def __init__(self, config: BrokerConfig, disk: Disk, directory: Path, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._disk = disk
        self._root = directory.parent
        self._json = JsonTable(disk, directory / TOPICS, TopicConfigTable)
        self.file = JsonFile(self._json, self._snapshot, clock=clock, seconds=_PERSIST_SECONDS, is_copied=True)
        self.topics: dict[str, TopicConfig] = {}
        self.data_version = DataVersion()
        # Names of the topics that the broker created for itself.
        self.system: frozenset[str] = frozenset()
        # Duration of requests that create or change a topic.
        self.creation_times = creation_times()
        self._on_change: Callable[[TopicConfig], None] = lambda topic: None

    def set_change_listener(self, on_change: Callable[[TopicConfig], None]) -> None:
        """Call `on_change` with every topic that is created or changed.

        Not a constructor argument, because the listener, the registration with NameServers, reads this table.
        """
        self._on_change = on_change

    def load(self, stored: Mapping[str, int] = _NOTHING) -> None:
        """Read the file and add the system topics; StoreDamaged if the file cannot be read.

        `stored` maps topics with messages to their numbers of queues. If the file was missing or damaged, those that
        the backup does not contain are added.
        """
        loaded = self._json.load()
        if loaded is not None:
            self.topics, self.data_version = loaded.topic_config_table, loaded.data_version
            self._correct_queue_types()
        own_topics = list(system_topics(self._config))
        self.system = frozenset(topic.topic_name for topic in own_topics)
        for topic in own_topics:
            if topic.topic_name not in self.topics or topic.topic_name == TEMPLATE_TOPIC:
                self.topics[topic.topic_name] = topic
        has_missing = self._json.is_restored and self._add_missing(stored)
        if loaded is None or has_missing:
            self._changed()

    def _correct_queue_types(self) -> None:
        """Remove `queue.type=BatchCQ` from topics that earlier versions created with it: their queues are SimpleCQ."""
        found = mistyped(self._disk, self._root, ((name, topic.attributes) for name, topic in self.topics.items()))
        for name in found:
            topic = self.topics[name]
            attributes = {key: value for key, value in (topic.attributes or {}).items() if key != QUEUE_TYPE}
            self.topics[name] = msgspec.structs.replace(topic, attributes=attributes)
            log.warning("topic %s: removed queue.type=BatchCQ, since its queues are SimpleCQ", name)
        if found:
            self._changed()

    def _add_missing(self, stored: Mapping[str, int]) -> bool:
        """Add topics that have messages but whose settings were lost; return whether there were any."""
        missing = sorted(topic for topic in stored if topic not in self.topics)
        for topic in missing:
            count = stored[topic]
            self.topics[topic] = TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count)
        if missing:
            names = ", ".join(missing[:_NAMES_LOGGED_MAX]) + (", ..." if len(missing) > _NAMES_LOGGED_MAX else "")
            log.warning(
                "%s is missing or damaged: %d topics were restored from the consume queues, with default permissions "
                "and as many queues as have messages; check them: %s",
                self._json.path,
                len(missing),
                names,
            )
        return bool(missing)

    def serialized(self) -> TopicConfigTable:
        return TopicConfigTable(self.data_version, self.topics)

    def _snapshot(self) -> TopicConfigTable:
        return TopicConfigTable(msgspec.structs.replace(self.data_version), dict(self.topics))

    def get(self, topic: str) -> TopicConfig | None:
        return self.topics.get(topic)

    def find(self, topic: str) -> TopicConfig:
        """Return the topic, or raise TopicNotFound with Java's message."""
        found = self.topics.get(topic)
        if found is None:
            raise TopicNotFound(f"topic[{topic}] not exist, apply first please!")
        return found

    def is_system(self, topic: str) -> bool:
        return is_system_topic(topic, self.system)

    def system_names(self) -> frozenset[str]:
        """Return the names of system topics; names with the prefix `rmq_sys_` are reserved too."""
        return RESERVED_TOPICS | self.system

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic. Objects in the table are never modified, since a thread may be encoding them."""
        if topic.topic_name not in self.topics and len(self.topics) >= self._config.topic_nums_max:
            raise SystemBusy(f"{len(self.topics)} topics, at most {self._config.topic_nums_max} allowed")
        self.topics[topic.topic_name] = topic
        self._changed()
        self._on_change(topic)

    def replace_all(self, table: TopicConfigTable) -> None:
        """Replace all topics, and the version, by those of a master; the topics of this broker itself stay."""
        if len(table.topic_config_table) > self._config.topic_nums_max:
            raise SystemBusy(
                f"the master has {len(table.topic_config_table)} topics, at most {self._config.topic_nums_max} allowed"
            )
        own_topics = {name: self.topics[name] for name in self.system}
        self.topics = own_topics | table.topic_config_table
        self.data_version = msgspec.structs.replace(table.data_version)
        self.file.changed()

    def delete(self, topic: str) -> None:
        if self.topics.pop(topic, None) is not None:
            self._changed()

    def mark_ordered(self, names: Iterable[str]) -> None:
        """Mark topics as ordered that a NameServer has an order configuration for; the others keep their setting."""
        unmarked = [topic for name in names if (topic := self.topics.get(name)) is not None and not topic.order]
        for topic in unmarked:
            self.topics[topic.topic_name] = msgspec.structs.replace(topic, order=True)
        if unmarked:
            self._changed()

    def bump_version(self) -> None:
        """Increment the version of the table, so that NameServers read it again."""
        self._changed()

    def create_from_template(
        self, topic: str, template_name: str, queue_nums: int, *, is_unit: bool = False
    ) -> TopicConfig | None:
        """Create the topic of a send from its template topic; None if the template does not exist or not allow it."""
        template = self.topics.get(template_name)
        if template is None:
            return None
        perm = template.perm
        if template_name == TEMPLATE_TOPIC and not self._config.auto_create_topic_enable:
            perm &= ~Perm.INHERIT
        if not perm & Perm.INHERIT:
            return None
        queues = max(0, min(queue_nums, template.write_queue_nums))
        created = TopicConfig(
            attributes={},
            perm=int(perm & ~Perm.INHERIT),
            read_queue_nums=queues,
            topic_filter_type=template.topic_filter_type,
            topic_name=topic,
            topic_sys_flag=int(TopicSysFlag.UNIT) if is_unit else 0,
            write_queue_nums=queues,
        )
        self.put(created)
        return created

    def create(
        self, topic: str, queue_nums: int, *, perm: int = 6, sys_flag: int = 0, is_ordered: bool = False
    ) -> TopicConfig:
        """Return the topic, creating it without a template if there is none: for retries, dead letters and the like."""
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
    """Raise InvalidParameter with Java's message if this is not a valid topic name."""
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
