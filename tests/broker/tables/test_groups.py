"""The table of consumer groups."""

import shutil
from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.tables import groups as module
from kerolox.broker.tables.groups import GroupTable
from kerolox.errors import SystemBusy
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.wire.bodies.groups import SubscriptionGroupConfig

GOLDEN = Path(__file__).parents[2] / "golden"


def table(directory: Path, **changes: str) -> GroupTable:
    config = BrokerConfig()
    config.update(changes)
    loaded = GroupTable(config, RealDisk(), directory, ManualClock())
    loaded.load()
    return loaded


def test_a_new_broker_has_the_system_groups_of_rocketmq(tmp_path: Path) -> None:
    assert sorted(table(tmp_path).groups) == [
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "TOOLS_CONSUMER",
    ]


def test_system_groups_do_not_increment_the_version(tmp_path: Path) -> None:
    """As in Java; mqadmin's exportMetadata shows the version."""
    groups = table(tmp_path)
    assert groups.data_version.counter == 0

    groups.put(SubscriptionGroupConfig(group_name="g"))

    assert groups.data_version.counter == 1


def test_an_unknown_group_is_created_on_first_use(tmp_path: Path) -> None:
    groups = table(tmp_path)

    group = groups.find("g")

    assert (group.retry_max_times, group.retry_queue_nums, group.consume_enable) == (16, 1, True)
    assert groups.get("no good") is None


def test_only_system_groups_are_created_if_automatic_creation_is_disabled(tmp_path: Path) -> None:
    groups = table(tmp_path, autoCreateSubscriptionGroup="false")

    assert groups.get("CID_RMQ_SYS_something") is not None
    with pytest.raises(GroupNotFound, match=r"subscription group \[g\] does not exist"):
        groups.find("g")


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
async def test_a_file_written_by_java_survives_loading_and_saving(tmp_path: Path, version: str) -> None:
    shutil.copytree(GOLDEN / f"config-{version}", tmp_path / "config")
    groups = table(tmp_path / "config")
    assert "keyed_consumer" in groups.groups

    groups.put(SubscriptionGroupConfig(group_name="g", retry_max_times=3))
    groups.forbid_reading("g", "orders", is_forbidden=True)
    await groups.file.save()

    again = table(tmp_path / "config")
    assert (again.groups, again.forbidden, again.data_version) == (
        groups.groups,
        {"g": {"orders": 4}},
        groups.data_version,
    )


def test_deleting_a_group_removes_its_forbidden_topics(tmp_path: Path) -> None:
    groups = table(tmp_path)
    groups.find("g")
    groups.forbid_reading("g", "orders", is_forbidden=True)
    assert not groups.is_readable("g", "orders")
    assert groups.is_readable("g", "others")

    assert groups.delete("g")

    assert groups.is_readable("g", "orders")
    assert not groups.delete("g")


def test_allowing_one_topic_leaves_the_others_forbidden(tmp_path: Path) -> None:
    groups = table(tmp_path)
    for topic in ("one", "two"):
        groups.forbid_reading("g", topic, is_forbidden=True)

    groups.forbid_reading("g", "one", is_forbidden=False)

    assert (groups.is_readable("g", "one"), groups.is_readable("g", "two")) == (True, False)


def test_the_number_of_forbidden_topics_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups need not exist, and each may have a thousand, so the total needs a limit too."""
    monkeypatch.setattr(module, "_FORBIDDEN_TOPICS_TOTAL_MAX", 3)
    groups = table(tmp_path)
    for name in ("one", "two", "three"):
        groups.forbid_reading(f"g-{name}", name, is_forbidden=True)

    with pytest.raises(SystemBusy, match="3 topics are forbidden to groups, at most 3 in total: allow some"):
        groups.forbid_reading("g-four", "four", is_forbidden=True)

    assert "g-four" not in groups.forbidden
    groups.forbid_reading("g-one", "one", is_forbidden=True)
    groups.forbid_reading("g-one", "one", is_forbidden=False)
    groups.forbid_reading("g-four", "four", is_forbidden=True)
    assert sorted(groups.forbidden) == ["g-four", "g-three", "g-two"]


def test_the_number_of_groups_is_limited(tmp_path: Path) -> None:
    groups = table(tmp_path, groupNumsMax="9")
    groups.find("ninth")

    with pytest.raises(SystemBusy, match="9 groups, at most 9 allowed"):
        groups.find("tenth")


@pytest.mark.parametrize("name", ["", " ", "..", "a/b", "g" * 121, "a@b"])
def test_invalid_group_names_are_rejected(tmp_path: Path, name: str) -> None:
    """Group names are part of the names of retry topics, which are names of directories."""
    with pytest.raises(InvalidParameter):
        table(tmp_path).put(SubscriptionGroupConfig(group_name=name))
