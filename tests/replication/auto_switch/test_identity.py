"""Files of a broker's identity: RocketMQ's format, and never the identity of another store."""

from pathlib import Path

import pytest

from kerolox.replication.auto_switch.identity import Application, Identity, IdentityFiles, store_id
from kerolox.runtime.files import RealDisk
from kerolox.store.errors import StoreDamaged
from tests.store.disks import SimulatedDisk, Stopped

ONE = Identity("DefaultCluster", "broker-a", 1)
CODE = "10.0.0.1:10911;1700000000000"


def files(root: Path, store: str = "s1") -> IdentityFiles:
    return IdentityFiles(RealDisk(), root / "brokerIdentity", store)


def test_the_files_have_rocketmqs_format(tmp_path: Path) -> None:
    files(tmp_path).apply(Application(ONE, CODE))
    temporary = tmp_path / "brokerIdentity-temp"
    assert temporary.read_text() == f"DefaultCluster#broker-a#1#{CODE}"
    assert files(tmp_path).load_application() == (ONE, CODE)

    files(tmp_path).grant(ONE)
    assert (tmp_path / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
    assert not temporary.exists()
    assert files(tmp_path).load(is_log_empty=True) == ONE


def test_the_identity_of_another_store_is_not_used(tmp_path: Path) -> None:
    files(tmp_path, "s1").grant(ONE)
    assert files(tmp_path, "s2").load(is_log_empty=True) is None
    assert files(tmp_path, "s2").load(is_log_empty=False) is None


def test_an_identity_of_rocketmqs_is_used_only_with_a_log(tmp_path: Path) -> None:
    (tmp_path / "brokerIdentity").write_text("DefaultCluster#broker-a#3")
    assert files(tmp_path).load(is_log_empty=False) == ONE._replace(broker_id=3)
    assert files(tmp_path).load(is_log_empty=True) is None


def test_an_emptied_store_gets_another_id(tmp_path: Path) -> None:
    first = store_id(RealDisk(), tmp_path, is_emptied=False)
    assert store_id(RealDisk(), tmp_path, is_emptied=False) == first
    second = store_id(RealDisk(), tmp_path, is_emptied=True)
    assert second != first
    (tmp_path / "storeId").unlink()
    assert store_id(RealDisk(), tmp_path, is_emptied=False) not in (first, second)


@pytest.mark.parametrize("content", ["", "a#b", "a#b#x", "a#b#1#2", "a#b#-1"])
def test_an_unreadable_identity_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "brokerIdentity").write_text(content)
    with pytest.raises(StoreDamaged, match="brokerIdentity"):
        files(tmp_path).load(is_log_empty=False)


def test_a_kill_at_any_operation_leaves_the_application_or_the_identity() -> None:
    root = Path("/store")
    for operation in range(1, 40):
        disk = SimulatedDisk()
        disk.make_directory(root)
        disk.sync(Path("/"))
        IdentityFiles(disk, root / "brokerIdentity", "s1").apply(Application(ONE, CODE))
        disk.stop_after = disk.operations + operation - 1
        try:
            IdentityFiles(disk, root / "brokerIdentity", "s1").grant(ONE)
        except Stopped:
            pass
        else:
            return
        for after in (disk.after_kill(), *disk.after_power_cut()):
            found = IdentityFiles(after, root / "brokerIdentity", "s1")
            assert found.load(is_log_empty=True) == ONE or found.load_application() == (ONE, CODE)
    raise AssertionError("the grant never ended")
