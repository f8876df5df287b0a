"""Key-value configuration on disk."""

from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError, QueryNotFound, SystemFailure
from kerolox.namesrv import NamesrvConfig
from kerolox.namesrv.kv_config import KVConfigTable
from kerolox.runtime.files import RealDisk
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import NamesrvFixture


class FailingDisk(RealDisk):
    """A disk whose writes fail after `operations` operations."""

    def __init__(self, operations: int) -> None:
        self.operations = operations

    def _count(self) -> None:
        if self.operations == 0:
            raise OSError(28, "No space left on device")
        self.operations -= 1

    def write(self, path: Path, data: bytes) -> None:
        self._count()
        super().write(path, data)

    def sync(self, path: Path) -> None:
        self._count()
        super().sync(path)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)


def load_table(path: Path) -> KVConfigTable:
    table = KVConfigTable(RealDisk(), path, bytes_max=10_000)
    table.load()
    return table


async def test_values_can_be_put_read_listed_and_deleted(namesrv: NamesrvFixture) -> None:
    await namesrv.call(h.PutKVConfig(namespace="N", key="k", value="v=1;ü"))
    assert (await namesrv.call(h.GetKVConfig(namespace="N", key="k"))).fields.value == "v=1;ü"
    assert (await namesrv.call(h.GetKVListByNamespace(namespace="N"))).body == '{"table":{"k":"v=1;ü"}}'.encode()

    await namesrv.call(h.DeleteKVConfig(namespace="N", key="k"))

    with pytest.raises(QueryNotFound):
        await namesrv.call(h.GetKVConfig(namespace="N", key="k"))
    with pytest.raises(QueryNotFound, match="No config item, Namespace: M"):
        await namesrv.call(h.GetKVListByNamespace(namespace="M"))
    assert (await namesrv.call(h.GetKVListByNamespace(namespace="N"))).body == b'{"table":{}}'


async def test_the_file_has_javas_format_and_a_backup(namesrv: NamesrvFixture, config: NamesrvConfig) -> None:
    await namesrv.call(h.PutKVConfig(namespace="N", key="a", value="1"))
    await namesrv.call(h.PutKVConfig(namespace="N", key="b", value="2"))

    assert config.kv_config_path.read_bytes() == b'{"configTable":{"N":{"a":"1","b":"2"}}}'
    assert config.kv_config_path.with_name("kvConfig.json.bak").read_bytes() == b'{"configTable":{"N":{"a":"1"}}}'


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_a_file_written_by_java_is_read(version: str) -> None:
    table = load_table(Path(__file__).parents[1] / "golden" / f"namesrv-{version}-kvConfig.json")

    assert table.get("ORDER_TOPIC_CONFIG", "TopicTest") == "broker-a:4"


@pytest.mark.parametrize("operations", range(8))
async def test_a_failing_disk_leaves_the_old_or_the_new_file_intact(tmp_path: Path, operations: int) -> None:
    path = tmp_path / "kvConfig.json"
    await load_table(path).put("N", "k", "old")
    table = KVConfigTable(FailingDisk(operations), path, bytes_max=10_000)
    table.load()

    with pytest.raises(SystemFailure, match="No space left"):
        await table.put("N", "k", "new")

    assert table.get("N", "k") == "old"
    assert load_table(path).get("N", "k") in ("old", "new")


async def test_a_torn_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    table = load_table(path)
    await table.put("N", "k", "first")
    await table.put("N", "k", "second")
    path.write_bytes(path.read_bytes()[:10])

    assert load_table(path).get("N", "k") == "first"


def test_an_unreadable_file_without_backup_prevents_the_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b'{"configTable":')

    with pytest.raises(ConfigurationError, match="kvConfigPath="):
        load_table(path)


async def test_the_size_of_the_table_is_limited(tmp_path: Path) -> None:
    table = load_table(tmp_path / "kvConfig.json")

    with pytest.raises(SystemFailure, match="exceeds the limit of 10000"):
        await table.put("N", "k", "v" * 10_000)

    assert table.namespace("N") is None


async def test_a_missing_file_is_an_empty_table_even_with_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    table = load_table(path)
    await table.put("N", "k", "first")
    await table.put("N", "k", "second")
    path.unlink()

    assert load_table(path).namespace("N") is None


def test_a_directory_in_place_of_the_file_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="kvConfigPath="):
        load_table(tmp_path)
