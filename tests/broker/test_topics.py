"""The table of topics."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.topics import TopicTable, check_topic_name
from kerolox.errors import SystemBusy, TopicNotFound
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.errors import StoreDamaged
from kerolox.wire.bodies.topics import TopicConfig

GOLDEN = Path(__file__).parent.parent / "golden"
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
def test_a_new_broker_has_the_topics_of_the_original(tmp_path: Path, name: str, queues: int, perm: int) -> None:
    topic = table(tmp_path).find(name)

    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (queues, queues, perm)
    assert table(tmp_path).is_system(name)


def test_flags_decide_over_some_of_them(tmp_path: Path) -> None:
    flags = {"autoCreateTopicEnable": "false", "clusterTopicEnable": "false", "brokerTopicEnable": "false"}
    topics = table(tmp_path, traceTopicEnable="true", **flags)

    assert topics.get("TBW102") is None
    assert (topics.find("DefaultCluster").perm, topics.find("broker-a").perm) == (1, 1)
    assert topics.find("RMQ_SYS_TRACE_TOPIC").perm == 6


def test_an_unknown_topic_is_made_after_its_template(tmp_path: Path) -> None:
    topics = table(tmp_path)
    told: list[str] = []
    topics.on_change = lambda topic: told.append(topic.topic_name)

    made = topics.create_like("orders", "TBW102", 4, is_unit=True)
    wide = topics.create_like("wide", "TBW102", 100)
    none = topics.create_like("none", "TBW102", -3)

    assert made is not None
    assert wide is not None
    assert none is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm, made.topic_sys_flag) == (4, 4, 6, 1)
    assert (wide.write_queue_nums, none.write_queue_nums) == (8, 0)
    assert told == ["orders", "wide", "none"]


def test_a_template_that_does_not_pass_itself_on_makes_nothing(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig(topic_name="plain", perm=6))

    assert topics.create_like("orders", "plain", 4) is None
    assert topics.create_like("orders", "unknown", 4) is None


def test_creation_can_be_switched_off_though_the_template_is_in_the_file(tmp_path: Path) -> None:
    for name in JAVA[:1]:
        shutil.copytree(GOLDEN / f"config-{name}", tmp_path, dirs_exist_ok=True)
    topics = table(tmp_path, autoCreateTopicEnable="false")

    assert topics.find("TBW102").perm == 7
    assert topics.create_like("orders", "TBW102", 4) is None
    # The cluster's own topic is a template too.
    assert topics.create_like("orders", "DefaultCluster", 4) is not None


@pytest.mark.parametrize("version", JAVA)
async def test_what_java_has_written_is_read_and_written_again(tmp_path: Path, version: str) -> None:
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


def test_a_file_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{ torn")

    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        table(tmp_path)


def test_an_order_marks_the_topics_it_names_and_gives_another_version(tmp_path: Path) -> None:
    topics = table(tmp_path)
    topics.put(TopicConfig(topic_name="orders"))
    before = topics.data_version.counter

    topics.take_order({"orders": "broker-a:4", "unknown": "broker-a:4"})
    topics.take_order({"orders": "broker-a:4"})
    topics.take_order({})

    assert topics.find("orders").order
    assert topics.data_version.counter == before + 1


def test_there_is_an_end_to_topics(tmp_path: Path) -> None:
    topics = table(tmp_path, topicNumsMax="15")
    for number in range(15 - len(topics.topics)):
        topics.put(TopicConfig(topic_name=f"t{number}"))

    with pytest.raises(SystemBusy, match="15 topics, at most 15 allowed"):
        topics.create_like("more", "TBW102", 4)
    topics.put(TopicConfig(topic_name="t0", perm=4))
    assert topics.find("t0").perm == 4


def test_an_unknown_topic_is_17_in_the_words_that_clients_know(tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match=r"topic\[orders\] not exist, apply first please!"):
        table(tmp_path).find("orders")


@pytest.mark.parametrize("name", ["a", "%RETRY%group", "t" * 127, "%DLQ%" + "g" * 250, "a|b-c_d"])
def test_names_that_topics_may_have(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\\b", "a.b", "a\n", "a\0", "täglich", "t" * 128, "%DLQ%" + "g" * 251, "a+b"]
)
def test_names_that_would_leave_the_directory_or_have_no_file(name: str) -> None:
    with pytest.raises(InvalidParameter):
        check_topic_name(name)
