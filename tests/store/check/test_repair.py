"""Repairing a store changes only what is wrong."""

import shutil
from pathlib import Path

import pytest

from kerolox.runtime.files import RealDisk
from kerolox.store.check.check import check
from kerolox.store.check.repair import repair_queue_types
from kerolox.store.errors import StoreDamaged
from kerolox.store.lock import StoreLocked, take_lock
from kerolox.store.tables import TOPICS, JsonTable
from kerolox.wire.bodies.topics import TopicConfig, TopicConfigTable
from tests.store.check.test_check import configuration, make_store

GOLDEN = Path(__file__).parents[2] / "golden"
BATCH = {"queue.type": "BatchCQ"}


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    """A store whose topics.json was written by Java, and has three more topics of type BatchCQ."""
    root = tmp_path / "store"
    await make_store(root)
    shutil.copytree(GOLDEN / "config-5.5.0", root / "config")
    table = topics(root)
    for name in ("orders", "empty", "packed"):
        table.topic_config_table[name] = TopicConfig(topic_name=name, attributes={**BATCH, "message.type": "NORMAL"})
    JsonTable(RealDisk(), root / "config" / TOPICS, TopicConfigTable).persist(table)
    (root / "batchconsumequeue" / "packed").mkdir(parents=True)
    return root


def topics(root: Path) -> TopicConfigTable:
    loaded = JsonTable(RealDisk(), root / "config" / TOPICS, TopicConfigTable).load()
    assert loaded is not None
    return loaded


def test_the_queue_type_is_removed_from_topics_that_have_no_batch_queues(root: Path) -> None:
    before = (root / "config" / TOPICS).read_bytes()

    assert repair_queue_types(root) == ["orders", "empty"]

    given = {name: topic.attributes for name, topic in topics(root).topic_config_table.items()}
    assert given["orders"] == given["empty"] == {"message.type": "NORMAL"}
    assert given["packed"] == {**BATCH, "message.type": "NORMAL"}
    removed = b'\n\t\t\t\t"queue.type":"BatchCQ",'
    assert (root / "config" / TOPICS).read_bytes() == before.replace(removed, b"", 2)
    assert check(configuration(root)).is_whole
    assert repair_queue_types(root) == []


def test_a_store_open_in_a_broker_is_not_repaired(root: Path) -> None:
    before = (root / "config" / TOPICS).read_bytes()
    lock = take_lock(root / "lock")

    with pytest.raises(StoreLocked):
        repair_queue_types(root)

    lock.release()
    assert (root / "config" / TOPICS).read_bytes() == before


def test_an_unreadable_table_is_not_changed(root: Path) -> None:
    for name in (TOPICS, f"{TOPICS}.bak"):
        (root / "config" / name).write_text("{ torn")

    with pytest.raises(StoreDamaged):
        repair_queue_types(root)

    assert (root / "config" / TOPICS).read_text() == "{ torn"
