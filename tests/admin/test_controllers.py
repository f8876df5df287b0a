"""The admin client with controllers: leaders, sync state sets, elections and settings."""

from collections.abc import AsyncIterator

import pytest

from kerolox.admin import AdminClient, AdminError, Election
from kerolox.codes import ResponseCode
from kerolox.controller import ControllerConfig
from kerolox.errors import AnswerError, ConnectFailed, NoPermission
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import SystemClock
from kerolox.wire.bodies.controller import EpochEntry, EpochEntryCache
from kerolox.wire.header import Empty
from kerolox.wire.headers import controller as c
from kerolox.wire.reply import Reply
from tests.controller.conftest import config, controller
from tests.controller.controllers import CLUSTER, NAME, ControllerFixture

__all__ = ["config", "controller"]


@pytest.fixture
async def admin(config: ControllerConfig) -> AsyncIterator[AdminClient]:
    async with AdminClient(namesrv_addr="127.0.0.1:1") as admin:
        yield admin


async def test_the_leader_is_found(admin: AdminClient, controller: ControllerFixture) -> None:
    found = await admin.controllers.metadata(f"127.0.0.1:1;{controller.address}")

    assert (found.group, found.controller_leader_address) == ("controller", controller.address)
    with pytest.raises(ConnectFailed):
        await admin.controllers.metadata("127.0.0.1:1")


async def test_sync_state_sets_are_read(admin: AdminClient, controller: ControllerFixture) -> None:
    first, second = await controller.group(2)

    found = await admin.controllers.sync_state(controller.address, [NAME, "other"])

    assert list(found) == [NAME]
    assert found[NAME].master_address == first.address
    assert [it.broker_address for it in found[NAME].in_sync_replicas] == [first.address, second.address]


async def test_a_master_is_designated(admin: AdminClient, controller: ControllerFixture) -> None:
    first, second = await controller.group(2)

    done = await admin.controllers.elect_master(controller.address, NAME, 2, cluster=CLUSTER)

    assert done == Election(2, second.address, 2, 3, {1: first.address, 2: second.address})
    with pytest.raises(AnswerError) as raised:
        await admin.controllers.elect_master(controller.address, NAME, 1)
    assert raised.value.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


async def test_brokers_are_removed(admin: AdminClient, controller: ControllerFixture) -> None:
    _, _, third = await controller.group(3)
    with pytest.raises(AnswerError, match="still alive"):
        await admin.controllers.clean_broker_data(controller.address, NAME, broker_ids=[3])
    await third.disconnect()

    await admin.controllers.clean_broker_data(controller.address, NAME, broker_ids=[3], cluster=CLUSTER)
    assert len((await controller.info()).in_sync_replicas) == 2

    await admin.controllers.clean_broker_data(controller.address, NAME, with_living=True)
    assert await admin.controllers.sync_state(controller.address, [NAME]) == {}


async def test_settings_are_read_and_changed(admin: AdminClient, controller: ControllerFixture) -> None:
    await admin.controllers.update_configs(controller.address, {"scanInactiveMasterInterval": "1234"})

    found = await admin.controllers.configs(controller.address)
    assert found[controller.address]["scanInactiveMasterInterval"] == "1234"
    with pytest.raises(NoPermission):
        await admin.controllers.update_configs(controller.address, {"controllerStorePath": "/x"})


class Leaderless:
    """A controller without a leader, which is a broker as well."""

    @handles(c.GetControllerMetadata)
    def metadata(self, request: Incoming[c.GetControllerMetadata]) -> Reply[c.ControllerMetadata]:
        return Reply(c.ControllerMetadata(group="g"))

    @handles(c.GetBrokerEpochCache)
    def epochs(self, request: Incoming[c.GetBrokerEpochCache]) -> Reply[Empty]:
        return Reply(None, EpochEntryCache(1, NAME, CLUSTER, [EpochEntry(2**63 - 1, 1, 0)], 700).encode())


async def test_without_a_leader_nothing_is_asked(admin: AdminClient) -> None:
    server = Server(Router(Leaderless()), host="127.0.0.1", port=0, clock=SystemClock())
    await server.open()
    try:
        with pytest.raises(AdminError, match="have no leader yet"):
            await admin.controllers.sync_state(server.address, [NAME])
        epochs = await admin.controllers.broker_epochs(server.address)
    finally:
        await server.close()

    assert (epochs.max_offset, epochs.epoch_list[0].epoch) == (700, 1)
