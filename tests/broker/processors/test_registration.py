"""What a NameServer tells a broker."""

from pathlib import Path

import pytest

from kerolox.wire.headers.namesrv import NotifyMinBrokerIdChange
from tests.broker.brokers import running
from tests.broker.name_servers import FakeNameServer

NOTICE = NotifyMinBrokerIdChange(min_broker_id=0, min_broker_addr="10.0.0.1:10911", ha_broker_addr="10.0.0.1:10912")


async def test_a_master_has_nothing_to_ask(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with FakeNameServer() as namesrv, running(tmp_path, namesrvAddr=namesrv.address) as broker:
        await broker.call(NOTICE)

        assert len(namesrv.bodies) == 1
    assert "the first of the group is now 0 at 10.0.0.1:10911" in caplog.text
