"""Both storages obey one contract: values by name, changed by compare-and-swap only."""

import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kerolox.controller.storage.etcd import Etcd
from kerolox.controller.storage.local_file import LocalFile
from kerolox.controller.storage.storage import ABSENT, Storage, Stored, VersionConflict
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk

_prefixes = itertools.count()
Make = Callable[[], Storage]


@pytest.fixture(params=["file", "etcd"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Returns a storage each time, over the same values."""
    if request.param == "file":
        return lambda: LocalFile(RealDisk(), tmp_path / "controller")
    url: str = request.getfixturevalue("etcd_url")
    prefix = f"/test/{next(_prefixes)}"
    return lambda: Etcd([url], prefix, ManualClock())


@pytest.fixture
async def storage(make: Make) -> AsyncIterator[Storage]:
    storage = make()
    await storage.open()
    yield storage
    await storage.close()


async def test_a_value_is_stored_and_read(storage: Storage) -> None:
    version = await storage.replace("broker-a", b'{"master":1}', ABSENT)

    assert await storage.read("broker-a") == Stored(b'{"master":1}', version)
    assert await storage.load() == {"broker-a": Stored(b'{"master":1}', version)}
    assert await storage.read("broker-b") is None


async def test_a_change_needs_the_current_version(storage: Storage) -> None:
    first = await storage.replace("broker-a", b"1", ABSENT)
    second = await storage.replace("broker-a", b"2", first)

    for stale in (ABSENT, first, second + 1):
        with pytest.raises(VersionConflict):
            await storage.replace("broker-a", b"3", stale)
    assert await storage.read("broker-a") == Stored(b"2", second)


async def test_a_value_that_does_not_exist_has_no_other_version(storage: Storage) -> None:
    with pytest.raises(VersionConflict):
        await storage.replace("broker-a", b"1", 7)

    assert await storage.load() == {}


async def test_values_survive_a_restart(make: Make) -> None:
    for number in range(3):
        storage = make()
        await storage.open()
        found = await storage.load()
        assert {name: stored.value for name, stored in found.items()} == ({"ü/a b": b"%d" % number} if number else {})
        version = found["ü/a b"].version if number else ABSENT
        await storage.replace("ü/a b", b"%d" % (number + 1), version)
        await storage.close()


async def test_names_do_not_disturb_each_other(storage: Storage) -> None:
    versions = {name: await storage.replace(name, b'"x"', ABSENT) for name in ("a", "ab", "b")}
    await storage.replace("a", b'"y"', versions["a"])

    assert {name: stored.value for name, stored in (await storage.load()).items()} == {
        "a": b'"y"',
        "ab": b'"x"',
        "b": b'"x"',
    }


async def test_a_single_controller_leads(storage: Storage) -> None:
    leadership = await storage.campaign("n0", "127.0.0.1:9878")
    again = await storage.campaign("n0", "127.0.0.1:9878")

    assert leadership[:3] == again[:3] == (True, "n0", "127.0.0.1:9878")
    await storage.resign()
