"""The table of consumer offsets."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables import offsets as module
from kerolox.broker.tables.offsets import ConsumerOffsets
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.runtime.text import fastjson

GOLDEN = Path(__file__).parents[2] / "golden"


def table(directory: Path) -> ConsumerOffsets:
    loaded = ConsumerOffsets(BrokerConfig(), RealDisk(), directory, ManualClock())
    loaded.load()
    return loaded


def test_a_commit_may_decrease_the_offset(tmp_path: Path) -> None:
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 10)
    offsets.commit("g", "orders", 0, 7)

    assert offsets.get("g", "orders", 0) == 7
    assert offsets.get("g", "orders", 1) is None
    assert offsets.get("other", "orders", 0) is None


@pytest.mark.parametrize(("version", "total"), [("4.9.7", 181), ("5.5.0", 181)])
async def test_a_file_written_by_java_survives_loading_and_saving(tmp_path: Path, version: str, total: int) -> None:
    shutil.copytree(GOLDEN / f"config-{version}", tmp_path / "config")
    offsets = table(tmp_path / "config")
    assert sum(offsets.get("keyed_consumer", "Keyed", queue) or 0 for queue in range(4)) == total

    offsets.commit("g", "orders", 3, 5)
    await offsets.file.save()

    again = table(tmp_path / "config")
    assert again.table == offsets.table
    assert again.get("g", "orders", 3) == 5
    assert '\t\t"orders@g":{\n\t\t\t3:5\n' in (tmp_path / "config" / "consumerOffset.json").read_text()


def test_offsets_beyond_the_end_of_a_queue_are_lowered_durably(tmp_path: Path) -> None:
    offsets = table(tmp_path / "config")
    for queue_id in range(3):
        offsets.commit("g", "orders", queue_id, 10)
    offsets.pop_position = 5_000

    offsets.limit({("orders", 0): 7, ("orders", 1): 10}, 4_000)

    expected = {"orders@g": {0: 7, 1: 10, 2: 10}}
    again = table(tmp_path / "config")
    assert offsets.table == again.table == expected
    assert offsets.pop_position == again.pop_position == 4_000


def test_offsets_within_their_queues_are_not_saved_again(tmp_path: Path) -> None:
    offsets = table(tmp_path / "config")
    offsets.commit("g", "orders", 0, 10)
    offsets.limit({("orders", 0): 10}, 4_000)
    assert not (tmp_path / "config").exists()


def test_offsets_of_a_topic_or_group_can_be_deleted(tmp_path: Path) -> None:
    offsets = table(tmp_path)
    for topic in ("one", "two"):
        for group in ("a", "b"):
            offsets.commit(group, topic, 0, 1)

    offsets.delete_topic("one")
    offsets.delete_group("b")

    assert offsets.table == {"two@a": {0: 1}}
    assert (offsets.topics_of("a"), offsets.groups_of("two"), offsets.topics_of("b")) == (["two"], ["a"], [])


def test_the_number_of_offsets_is_limited_and_existing_ones_can_still_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OFFSETS_MAX", 2)
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 1)
    offsets.commit("g", "orders", 1, 1)

    with pytest.raises(SystemBusy, match="2 consumer offsets, at most 2 allowed"):
        offsets.commit("other", "orders", 0, 1)
    offsets.commit("g", "orders", 0, 2)

    assert offsets.table == {"orders@g": {0: 2, 1: 1}}
    offsets.delete_group("g")
    offsets.commit("other", "orders", 0, 1)


async def test_unknown_fields_of_the_file_are_kept(tmp_path: Path) -> None:
    """RocketMQ 5.5 also writes pull offsets and the topics of each group."""
    theirs = (
        '{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":5},"groupTopicMap":{"g":["orders"]},'
        '"offsetTable":{"orders@g":{0:7}},"pullOffsetTable":{"orders@g":{0:9,1:12}}}'
    )
    (tmp_path / "consumerOffset.json").write_text(theirs)
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 8)

    await offsets.file.save()

    written = (tmp_path / "consumerOffset.json").read_text()
    assert '"pullOffsetTable":{\n\t\t"orders@g":{\n\t\t\t0:9,\n\t\t\t1:12\n' in written
    assert '"groupTopicMap":{\n\t\t"g":[\n\t\t\t"orders"\n' in written
    assert list(fastjson.parse(written.encode())) == ["dataVersion", "groupTopicMap", "offsetTable", "pullOffsetTable"]
    assert table(tmp_path).get("g", "orders", 0) == 8


def test_offsets_of_the_broker_itself_are_exempt_from_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OFFSETS_MAX", 1)
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 1)

    offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)
    offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1)
    offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_DefaultCluster", 7, 1)

    # Another topic with the same group is not exempt.
    with pytest.raises(SystemBusy, match="4 consumer offsets, at most 1 allowed"):
        offsets.commit("CID_RMQ_SYS_TRANS", "orders", 0, 1)
