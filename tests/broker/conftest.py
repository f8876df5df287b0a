from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.brokers import BrokerFixture, running
from tests.loops import SERVER, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return SERVER


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store") as started:
        yield started
