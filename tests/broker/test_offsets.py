"""How far groups have come."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker import offsets as module
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.errors import SystemBusy
from kerolox.runtime import fastjson
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk

GOLDEN = Path(__file__).parent.parent / "golden"


def table(directory: Path) -> ConsumerOffsets:
    loaded = ConsumerOffsets(BrokerConfig(), RealDisk(), directory, ManualClock())
    loaded.load()
    return loaded


def test_a_commit_counts_also_if_it_goes_back(tmp_path: Path) -> None:
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 10)
    offsets.commit("g", "orders", 0, 7)

    assert offsets.get("g", "orders", 0) == 7
    assert offsets.get("g", "orders", 1) is None
    assert offsets.get("other", "orders", 0) is None


@pytest.mark.parametrize(("version", "total"), [("4.9.7", 181), ("5.5.0", 181)])
async def test_what_java_has_written_is_read_and_written_again(tmp_path: Path, version: str, total: int) -> None:
    shutil.copytree(GOLDEN / f"config-{version}", tmp_path / "config")
    offsets = table(tmp_path / "config")
    assert sum(offsets.get("keyed_consumer", "Keyed", queue) or 0 for queue in range(4)) == total

    offsets.commit("g", "orders", 3, 5)
    await offsets.file.save()

    again = table(tmp_path / "config")
    assert again.table == offsets.table
    assert again.get("g", "orders", 3) == 5
    assert '\t\t"orders@g":{\n\t\t\t3:5\n' in (tmp_path / "config" / "consumerOffset.json").read_text()


def test_a_topic_or_a_group_can_be_forgotten(tmp_path: Path) -> None:
    offsets = table(tmp_path)
    for topic in ("one", "two"):
        for group in ("a", "b"):
            offsets.commit(group, topic, 0, 1)

    offsets.delete_topic("one")
    offsets.delete_group("b")

    assert offsets.table == {"two@a": {0: 1}}
    assert (offsets.topics_of("a"), offsets.groups_of("two"), offsets.topics_of("b")) == (["two"], ["a"], [])


def test_there_is_an_end_to_offsets_and_what_is_there_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_what_is_not_understood_in_the_file_is_kept(tmp_path: Path) -> None:
    """5.5 writes where groups have pulled to, and which topics a group has."""
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


def test_what_the_broker_itself_consumes_finds_room_in_a_full_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OFFSETS_MAX", 1)
    offsets = table(tmp_path)
    offsets.commit("g", "orders", 0, 1)

    offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC", 0, 1)
    offsets.commit("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, 1)
    offsets.commit("CID_RMQ_SYS_REVIVE_GROUP", "rmq_sys_REVIVE_LOG_DefaultCluster", 7, 1)

    # Under these names nobody else does.
    with pytest.raises(SystemBusy, match="4 consumer offsets, at most 1 allowed"):
        offsets.commit("CID_RMQ_SYS_TRANS", "orders", 0, 1)
