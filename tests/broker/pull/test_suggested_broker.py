"""Which broker of its group a consumer is told to pull from."""

from pathlib import Path

import pytest

from kerolox.broker.config import BrokerConfig
from kerolox.broker.pull.suggested_broker import SuggestedBroker
from kerolox.broker.tables.groups import GroupTable
from kerolox.codes import ResponseCode
from kerolox.runtime.clock import ManualClock
from kerolox.runtime.files import RealDisk
from kerolox.store.config import BrokerRole, StoreConfig
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from tests.broker.brokers import running
from tests.broker.replication.replicas import SLAVE

MASTER, SLAVED = BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE


@pytest.mark.parametrize(
    ("role", "is_read_enabled", "is_behind", "has_master", "wanted"),
    [
        (MASTER, False, False, False, 0),
        (MASTER, False, True, False, 0),
        (MASTER, True, False, False, 3),
        (MASTER, True, True, False, 5),
        (SLAVED, False, False, True, 0),
        (SLAVED, False, True, True, 0),
        (SLAVED, False, False, False, 7),
        (SLAVED, True, True, True, 5),
        (SLAVED, True, False, True, 0),
        (SLAVED, True, False, False, 7),
    ],
)
def test_the_suggestion_depends_on_role_settings_and_progress(
    tmp_path: Path, role: BrokerRole, is_read_enabled: bool, is_behind: bool, has_master: bool, wanted: int
) -> None:
    config = BrokerConfig(broker_id=7, slave_read_enable=is_read_enabled)
    groups = GroupTable(config, RealDisk(), tmp_path, ManualClock())
    groups.put(SubscriptionGroupConfig(group_name="g", broker_id=3, which_broker_when_consume_slowly=5))
    suggested = SuggestedBroker(config, StoreConfig(broker_role=role), groups, lambda: has_master)

    assert suggested.of("g", is_behind=is_behind) == wanted


async def test_a_slave_without_a_master_serves_pulls_and_suggests_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        await master.send("orders", b"one")
    async with running(tmp_path, **SLAVE) as slave:
        found = await slave.pull("orders", 0)
        assert (found.code, found.fields.suggest_which_broker_id) == (ResponseCode.SUCCESS, 1)
        with pytest.raises(Exception, match="OFFSET_OVERFLOW_ONE"):
            await slave.pull("orders", 1)
        slave.broker.replication.metadata_copy.set_master("127.0.0.1:1")
        assert (await slave.pull("orders", 0)).fields.suggest_which_broker_id == 0


async def test_a_slave_for_reading_sends_consumers_back_when_they_have_caught_up(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        await master.send("orders", b"one")
    async with running(tmp_path, slaveReadEnable="true", **SLAVE) as slave:
        slave.broker.replication.metadata_copy.set_master("127.0.0.1:1")
        with pytest.raises(Exception) as caught:
            await slave.pull("orders", 1)
        assert getattr(caught.value, "code", None) == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_a_pull_does_not_commit_on_a_slave(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        await master.send("orders", b"one")
    async with running(tmp_path, **SLAVE) as slave:
        await slave.pull("orders", 0, sys_flag=0x5, commit_offset=1)
        assert slave.broker.offsets.get("group", "orders", 0) is None
