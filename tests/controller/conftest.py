"""An etcd for the tests of controllers, started with the first test that needs it."""

from collections.abc import Iterator

import pytest

from tests.controller.etcd import running_etcd
from tests.loops import SERVER, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return SERVER


@pytest.fixture(scope="session")
def etcd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as url:
        yield url
