"""Key-value configuration on disk."""

from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError, QueryNotFound, SystemFailure
from kerolox.namesrv import NamesrvConfig
from kerolox.namesrv.kv_store import KVStore
from kerolox.runtime.files import RealDisk
from kerolox.wire.headers import namesrv as h
from tests.namesrv.conftest import NamesrvFixture


class FailingDisk(RealDisk):
    """A disk on which writing fails after so many operations."""

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


def loaded(path: Path) -> KVStore:
    store = KVStore(RealDisk(), path, bytes_max=10_000)
    store.load()
    return store


async def test_values_are_put_read_listed_and_deleted(namesrv: NamesrvFixture) -> None:
    await namesrv.ask(h.PutKVConfig(namespace="N", key="k", value="v=1;ü"))
    assert (await namesrv.ask(h.GetKVConfig(namespace="N", key="k"))).fields.value == "v=1;ü"
    assert (await namesrv.ask(h.GetKVListByNamespace(namespace="N"))).body == '{"table":{"k":"v=1;ü"}}'.encode()

    await namesrv.ask(h.DeleteKVConfig(namespace="N", key="k"))

    with pytest.raises(QueryNotFound):
        await namesrv.ask(h.GetKVConfig(namespace="N", key="k"))
    with pytest.raises(QueryNotFound, match="No config item, Namespace: M"):
        await namesrv.ask(h.GetKVListByNamespace(namespace="M"))
    assert (await namesrv.ask(h.GetKVListByNamespace(namespace="N"))).body == b'{"table":{}}'


async def test_the_file_has_javas_form_and_the_previous_one_stays_as_bak(
    namesrv: NamesrvFixture, config: NamesrvConfig
) -> None:
    await namesrv.ask(h.PutKVConfig(namespace="N", key="a", value="1"))
    await namesrv.ask(h.PutKVConfig(namespace="N", key="b", value="2"))

    assert config.kv_config_path.read_bytes() == b'{"configTable":{"N":{"a":"1","b":"2"}}}'
    assert config.kv_config_path.with_name("kvConfig.json.bak").read_bytes() == b'{"configTable":{"N":{"a":"1"}}}'


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_a_file_that_java_wrote_is_read(version: str) -> None:
    store = loaded(Path(__file__).parents[1] / "golden" / f"namesrv-{version}-kvConfig.json")

    assert store.get("ORDER_TOPIC_CONFIG", "TopicTest") == "broker-a:4"


@pytest.mark.parametrize("operations", range(8))
async def test_a_failing_disk_leaves_the_old_values_or_the_new_whole(tmp_path: Path, operations: int) -> None:
    path = tmp_path / "kvConfig.json"
    await loaded(path).put("N", "k", "old")
    store = KVStore(FailingDisk(operations), path, bytes_max=10_000)
    store.load()

    with pytest.raises(SystemFailure, match="No space left"):
        await store.put("N", "k", "new")

    assert store.get("N", "k") == "old"
    assert loaded(path).get("N", "k") in ("old", "new")


async def test_a_torn_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    store = loaded(path)
    await store.put("N", "k", "first")
    await store.put("N", "k", "second")
    path.write_bytes(path.read_bytes()[:10])

    assert loaded(path).get("N", "k") == "first"


def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(b'{"configTable":')

    with pytest.raises(ConfigurationError, match="kvConfigPath="):
        loaded(path)


async def test_the_table_is_bounded(tmp_path: Path) -> None:
    store = loaded(tmp_path / "kvConfig.json")

    with pytest.raises(SystemFailure, match="at most 10000 kept"):
        await store.put("N", "k", "v" * 10_000)

    assert store.namespace("N") is None


async def test_a_file_that_was_removed_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    store = loaded(path)
    await store.put("N", "k", "first")
    await store.put("N", "k", "second")
    path.unlink()

    assert loaded(path).namespace("N") is None


def test_a_directory_in_its_place_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="kvConfigPath="):
        loaded(tmp_path)
