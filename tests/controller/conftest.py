"""A controller for each test that asks for it, and an etcd for all tests that need one."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kerolox.controller import ControllerConfig
from tests.controller.controllers import ControllerFixture, config_in, running
from tests.controller.etcd import running_etcd
from tests.loops import SERVER, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return SERVER


@pytest.fixture(scope="session")
def etcd_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as url:
        yield url


@pytest.fixture
def config(tmp_path: Path) -> ControllerConfig:
    return config_in(tmp_path)


@pytest.fixture
async def controller(config: ControllerConfig) -> AsyncIterator[ControllerFixture]:
    async with running(config) as fixture:
        yield fixture
