from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.broker.brokers import BrokerFixture, running


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerFixture]:
    async with running(tmp_path / "store") as started:
        yield started
