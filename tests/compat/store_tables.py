"""Writes the tables of a store directory with Kerolox, for Java to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kerolox.runtime.files import RealDisk
from kerolox.store import tables
from kerolox.store.delay.delay_levels import HALF_TOPIC
from kerolox.store.tables import JsonTable
from kerolox.wire.bodies.topics import DataVersion, TopicConfig
from tests.compat.store_writer import OP_TOPIC

# Without these entries, 4.9 does not serve the queues of these topics: it creates the first one only at the first
# transaction check, and the second one never.
SYSTEM_TOPICS = {HALF_TOPIC: 1, OP_TOPIC: 1}

_VERSION = DataVersion(counter=1, timestamp=1_700_000_000_000)


class CamelCase(msgspec.Struct, rename="camel"):
    data_version: DataVersion


class Topics(CamelCase):
    topic_config_table: dict[str, TopicConfig]


class Groups(CamelCase):
    subscription_group_table: dict[str, dict[str, Any]]


class Offsets(CamelCase):
    offset_table: dict[str, dict[int, int]]


class DelayOffsets(CamelCase):
    offset_table: dict[int, int]


def write_topics(root: Path, queue_numbers: Mapping[str, int]) -> None:
    topics = {
        name: TopicConfig(topic_name=name, read_queue_nums=number, write_queue_nums=number)
        for name, number in queue_numbers.items()
    }
    _persist(root, tables.TOPICS, Topics(_VERSION, topics))


def read_topics(root: Path) -> dict[str, TopicConfig]:
    found = JsonTable(RealDisk(), root / "config" / tables.TOPICS, Topics).load()
    assert found is not None
    return found.topic_config_table


def write_groups(root: Path, *names: str) -> None:
    _persist(root, tables.SUBSCRIPTION_GROUP, Groups(_VERSION, {name: {"groupName": name} for name in names}))


def write_offsets(root: Path, offsets: dict[str, dict[int, int]]) -> None:
    _persist(root, tables.CONSUMER_OFFSET, Offsets(_VERSION, offsets))


def write_delay_offsets(root: Path, offsets: dict[int, int]) -> None:
    _persist(root, tables.DELAY_OFFSET, DelayOffsets(_VERSION, offsets))


def _persist(root: Path, name: str, value: CamelCase) -> None:
    JsonTable(RealDisk(), root / "config" / name, type(value)).persist(value)
