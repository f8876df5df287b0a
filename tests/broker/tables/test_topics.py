"""The table of topics."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables.topics import TopicTable, check_topic_name
from kerolox.errors import SystemBusy, TopicNotFound
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.errors import StoreDamaged
from kerolox.wire.bodies.topics import TopicConfig

GOLDEN = Path(__file__).parents[2] / "golden"
JAVA = ("4.9.7", "5.5.0")


def table(directory: Path, **changes: str) -> TopicTable:
    config = BrokerConfig(broker_name="broker-a")
    config.update(changes)
    loaded = TopicTable(config, RealDisk(), directory, ManualClock())
    loaded.load()
    return loaded


@pytest.mark.parametrize(
    ("name", "queues", "perm"),
    [
        ("SELF_TEST_TOPIC", 1, 6),
        ("TBW102", 8, 7),
        ("BenchmarkTest", 1024, 6),
        ("DefaultCluster", 16, 7),
        ("broker-a", 1, 7),
        ("OFFSET_MOVED_EVENT", 1, 6),
        ("SCHEDULE_TOPIC_XXXX", 18, 6),
        ("DefaultCluster_REPLY_TOPIC", 1, 6),
        ("rmq_sys_REVIVE_LOG_DefaultCluster", 8, 6),
        ("rmq_sys_SYNC_BROKER_MEMBER_broker-a", 1, 1),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6),
        ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6),
        ("rmq_sys_wheel_timer", 1, 6),
    ],
)
def test_a_new_broker_has_the_system_topics_of_rocketmq(tmp_path: Path, name: str, queues: int, perm: int) -> None:
    topic = table(tmp_path).find(name)

    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (queues, queues, perm)
    assert table(tmp_path).is_system(name)


def test_some_system_topics_depend_on_settings(tmp_path: Path) -> None:
    flags = {"autoCreateTopicEnable": "false", "clusterTopicEnable": "false", "brokerTopicEnable": "false"}
    topics = table(tmp_path, traceTopicEnable="true", **flags)

    assert topics.get("TBW102") is None
    assert (topics.find("DefaultCluster").perm, topics.find("broker-a").perm) == (1, 1)
    assert topics.find("RMQ_SYS_TRACE_TOPIC").perm == 6


def test_an_unknown_topic_is_created_from_its_template(tmp_path: Path) -> None:
    topics = table(tmp_path)
    changed: list[str] = []
    topics.set_change_listener(lambda topic: changed.append(topic.topic_name))

    created = topics.create_from_template("orders", "TBW102", 4, is_unit=True)
    wide = topics.create_from_template("wide", "TBW102", 100)
    none = topics.create_from_template("none", "TBW102", -3)

    assert created is not None
    assert wide is not None
    assert none is not None
    assert (created.read_queue_nums, created.write_queue_nums, created.perm, created.topic_sys_flag) == (4, 4, 6, 1)
    assert (wide.write_queue_nums, none.write_queue_nums) == (8, 0)
    assert changed == ["orders", "wide", "none"]


def test_a_template_without_inherit_permission_creates_nothing(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig(topic_name="plain", perm=6))

    assert topics.create_from_template("orders", "plain", 4) is None
    assert topics.create_from_template("orders", "unknown", 4) is None


def test_automatic_creation_can_be_disabled_although_the_file_has_the_template(tmp_path: Path) -> None:
    for name in JAVA[:1]:
        shutil.copytree(GOLDEN / f"config-{name}", tmp_path, dirs_exist_ok=True)
    topics = table(tmp_path, autoCreateTopicEnable="false")

    assert topics.find("TBW102").perm == 7
    assert topics.create_from_template("orders", "TBW102", 4) is None
    # The topic named after the cluster is a template too.
    assert topics.create_from_template("orders", "DefaultCluster", 4) is not None


@pytest.mark.parametrize("version", JAVA)
async def test_a_file_written_by_java_survives_loading_and_saving(tmp_path: Path, version: str) -> None:
    shutil.copytree(GOLDEN / f"config-{version}", tmp_path / "config")
    topics = table(tmp_path / "config")
    java = dict(topics.topics)
    assert topics.find("Keyed").write_queue_nums == 4
    assert topics.data_version.counter > 0

    topics.put(TopicConfig(topic_name="orders", attributes={}))
    await topics.file.save()

    again = table(tmp_path / "config")
    assert again.topics == {**java, "orders": TopicConfig(topic_name="orders", attributes={})}
    assert again.data_version == topics.data_version
    text = (tmp_path / "config" / "topics.json").read_text()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":')


async def test_the_queue_type_of_topics_with_simple_queues_is_corrected_when_loading(tmp_path: Path) -> None:
    topics = table(tmp_path / "config")
    for name in ("simple", "batches"):
        attributes = {"queue.type": "BatchCQ", "message.type": "NORMAL"}
        topics.put(TopicConfig(topic_name=name, attributes=attributes))
    await topics.file.save()
    (tmp_path / "batchconsumequeue" / "batches").mkdir(parents=True)

    again = table(tmp_path / "config")
    await again.file.save()

    assert again.data_version.counter == topics.data_version.counter + 1
    saved = table(tmp_path / "config")
    assert saved.find("simple").attributes == {"message.type": "NORMAL"}
    assert saved.find("batches").attributes == {"queue.type": "BatchCQ", "message.type": "NORMAL"}


def test_an_unreadable_file_is_an_error_and_not_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{ torn")

    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        table(tmp_path)


def test_topics_of_a_missing_file_are_restored_from_the_queues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = TopicTable(BrokerConfig(broker_name="broker-a"), RealDisk(), tmp_path, ManualClock())

    topics.load({"orders": 5, "%RETRY%group": 1, "SCHEDULE_TOPIC_XXXX": 3})

    orders = topics.find("orders")
    assert (orders.read_queue_nums, orders.write_queue_nums, orders.perm) == (5, 5, 6)
    assert topics.find("%RETRY%group").read_queue_nums == 1
    assert topics.find("SCHEDULE_TOPIC_XXXX").read_queue_nums == 18
    assert "topics.json is missing or damaged: 2 topics were restored" in caplog.text


async def test_topics_that_an_old_backup_lacks_are_restored_from_the_queues(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig(topic_name="orders", write_queue_nums=3))
    await topics.file.save()
    topics.put(TopicConfig(topic_name="parts"))
    await topics.file.save()
    (tmp_path / "topics.json").write_text("{ torn")

    loaded = TopicTable(BrokerConfig(broker_name="broker-a"), RealDisk(), tmp_path, ManualClock())
    loaded.load({"orders": 2, "parts": 4})

    assert loaded.find("orders").write_queue_nums == 3
    assert loaded.find("parts").write_queue_nums == 4


async def test_topics_missing_in_an_intact_file_are_not_restored(tmp_path: Path) -> None:
    await table(tmp_path).file.save()

    loaded = TopicTable(BrokerConfig(broker_name="broker-a"), RealDisk(), tmp_path, ManualClock())
    loaded.load({"deleted": 2})

    assert loaded.get("deleted") is None


def test_an_order_configuration_marks_its_topics_and_increments_the_version(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig(topic_name="orders"))
    before = topics.data_version.counter

    topics.mark_ordered({"orders": "broker-a:4", "unknown": "broker-a:4"})
    topics.mark_ordered({"orders": "broker-a:4"})
    topics.mark_ordered({})

    assert topics.find("orders").order
    assert topics.data_version.counter == before + 1


def test_the_number_of_topics_is_limited(tmp_path: Path) -> None:
    topics = table(tmp_path, topicNumsMax="15")
    for number in range(15 - len(topics.topics)):
        topics.put(TopicConfig(topic_name=f"t{number}"))

    with pytest.raises(SystemBusy, match="15 topics, at most 15 allowed"):
        topics.create_from_template("more", "TBW102", 4)
    topics.put(TopicConfig(topic_name="t0", perm=4))
    assert topics.find("t0").perm == 4


def test_an_unknown_topic_is_an_error_with_the_message_of_java(tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match=r"topic\[orders\] not exist, apply first please!"):
        table(tmp_path).find("orders")


@pytest.mark.parametrize("name", ["a", "%RETRY%group", "t" * 127, "%DLQ%" + "g" * 250, "a|b-c_d"])
def test_valid_topic_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\\b", "a.b", "a\n", "a\0", "täglich", "t" * 128, "%DLQ%" + "g" * 251, "a+b"]
)
def test_names_that_are_not_safe_as_directories_are_rejected(name: str) -> None:
    with pytest.raises(InvalidParameter):
        check_topic_name(name)
