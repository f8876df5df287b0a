"""`mqadmin` commands for controllers, with the columns of RocketMQ 5.5.0."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import SystemClock
from kerolox.wire.bodies.controller import EpochEntry, EpochEntryCache
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo
from kerolox.wire.header import Empty
from kerolox.wire.headers.controller import GetBrokerEpochCache
from kerolox.wire.headers.namesrv import GetBrokerClusterInfo
from kerolox.wire.reply import Reply
from tests.cli.admin.tools import Tool
from tests.controller.controllers import CLUSTER, NAME, config_in, running


class FakeServers:
    """A NameServer that lists one broker: itself."""

    address = ""

    @handles(GetBrokerClusterInfo)
    def cluster(self, request: Incoming[GetBrokerClusterInfo]) -> Reply[Empty]:
        data = BrokerData(NAME, CLUSTER, {0: self.address})
        return Reply(None, ClusterInfo({NAME: data}, {CLUSTER: [NAME]}).encode())

    @handles(GetBrokerEpochCache)
    def epochs(self, request: Incoming[GetBrokerEpochCache]) -> Reply[Empty]:
        epochs = [EpochEntry(500, 1, 0), EpochEntry(2**63 - 1, 3, 500)]
        return Reply(None, EpochEntryCache(1, NAME, CLUSTER, epochs, 942).encode())


class Running:
    """A controller with a group of three, and a NameServer, in a thread of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller = self.namesrv = ""
        self.brokers: list[str] = []
        self.is_ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _run(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        fake = FakeServers()
        server = Server(Router(fake), host="127.0.0.1", port=0, clock=SystemClock())
        await server.open()
        fake.address = self.namesrv = server.address
        async with running(config_in(self.directory)) as controller:
            brokers = await controller.group(2)
            brokers.append(await (await controller.broker()).join())
            self.controller, self.brokers = controller.address, [it.address for it in brokers]
            self.is_ready.set()
            await self._stop.wait()
        await server.close()

    def __enter__(self) -> "Running":
        self._thread.start()
        assert self.is_ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as servers:
        yield servers


@pytest.fixture
def tool(servers: Running) -> Tool:
    return Tool(servers.namesrv, servers.namesrv)


def replica(number: int, address: str) -> str:
    return f"ReplicaIdentity{{brokerName='broker-a', brokerId={number}, brokerAddress='{address}', alive=true}}"


def test_the_sync_state_set_is_printed(tool: Tool, servers: Running) -> None:
    printed = tool("getSyncStateSet", "-a", servers.controller, "-b", NAME)

    first, second, third = servers.brokers
    assert printed == (
        f"\n#brokerName\tbroker-a\n#MasterBrokerId\t1\n#MasterAddr\t{first}\n#MasterEpoch\t1\n#SyncStateSetEpoch\t2\n"
        f"#SyncStateSetNums\t2\n\nInSyncReplica:\t{replica(1, first)}\n\nInSyncReplica:\t{replica(2, second)}\n"
        f"\nNotInSyncReplica:\t{replica(3, third)}\n"
    )
    assert tool("getSyncStateSet", "-a", servers.controller, "-c", CLUSTER) == printed
    assert tool("getSyncStateSet", "-a", servers.controller, "-b", "other") == ""
    (found,) = tool.json("getSyncStateSet", "-a", servers.controller, "-b", NAME)
    assert (found["brokerName"], found["masterBrokerId"]) == (NAME, 1)
    assert "give one of" in tool.run("getSyncStateSet", "-a", servers.controller).stderr


def test_epochs_of_brokers_are_printed(tool: Tool, servers: Running) -> None:
    printed = tool("getBrokerEpoch", "-b", NAME)

    assert printed == (
        f"\n#clusterName\t{CLUSTER}\n#brokerName\t{NAME}\n#brokerAddr\t{servers.namesrv}\n#brokerId\t1\n"
        "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=500}\n"
        "#Epoch: EpochEntry{epoch=3, startOffset=500, endOffset=942}\n"
    )
    assert tool("getBrokerEpoch", "-c", CLUSTER) == printed
    assert tool.json("getBrokerEpoch", "-b", NAME)[0]["epochList"][1]["endOffset"] == 942
    assert "is not known" in tool.fails("getBrokerEpoch", "-b", "other")


def test_the_leader_is_printed(tool: Tool, servers: Running) -> None:
    address = servers.controller

    assert tool("getControllerMetaData", "-a", address) == (
        f"\n#ControllerGroup\tcontroller\n#ControllerLeaderId\tn0\n#ControllerLeaderAddress\t{address}\n"
        f"#Peer:\tn0:{address}\n"
    )


def test_a_master_is_elected(tool: Tool, servers: Running) -> None:
    printed = tool("electMaster", "-a", servers.controller, "-b", "2", "-bn", NAME, "-c", CLUSTER)

    first, second, third = servers.brokers
    assert printed == (
        f"\n#ClusterName\t{CLUSTER}\n#BrokerName\t{NAME}\n#BrokerMasterAddr\t{second}\n#MasterEpoch\t2\n"
        f"#SyncStateSetEpoch\t3\n\t#Broker\t1\t{first}\n\t#Broker\t2\t{second}\n\t#Broker\t3\t{third}\n"
    )
    failure = tool.fails("electMaster", "-a", servers.controller, "-b", "3", "-bn", NAME, "-c", CLUSTER)
    assert "CONTROLLER_ELECT_MASTER_FAILED" in failure
    refused = tool.run("electMaster", "-a", servers.controller, "-b", "two", "-bn", NAME, "-c", CLUSTER)
    assert "is not a number" in refused.stderr


def test_settings_are_printed_and_changed(tool: Tool, servers: Running) -> None:
    before = tool("getControllerConfig", "-a", servers.controller)
    changed = tool("updateControllerConfig", "-a", servers.controller, "-k", "scanInactiveMasterInterval", "-v", "1234")

    assert before.startswith(f"============{servers.controller}============\n")
    assert f"{'scanInactiveMasterInterval':<50}=  5000\n" in before
    assert changed == f"update controller config success![{servers.controller}]\nscanInactiveMasterInterval : 1234\n"
    found = tool.json("getControllerConfig", "-a", servers.controller)[0]
    assert found["scanInactiveMasterInterval"] == "1234"
    unknown = ("updateControllerConfig", "-a", servers.controller, "-k", "nothing", "-v", "1")
    assert "unknown setting 'nothing'" in tool.run(*unknown, is_java=False).stderr
    path = ("updateControllerConfig", "-a", servers.controller, "-k", "controllerStorePath", "-v", "/x")
    assert "(NO_PERMISSION, 16)" in tool.fails(*path)


def test_brokers_are_removed(tool: Tool, servers: Running) -> None:
    clean = ("cleanBrokerMetadata", "-a", servers.controller, "-bn", NAME)

    assert "still alive" in tool.fails(*clean, "-b", "3", "-c", CLUSTER)
    assert "clusterName option can not be empty" in tool.run(*clean, "-b", "3").stderr
    assert "according to the format" in tool.run(*clean, "-b", "x", "-l").stderr
    assert tool(*clean, "-b", "3", "-l") == f"clear broker {NAME} metadata from controller success! \n"
    assert "NotInSyncReplica" not in tool("getSyncStateSet", "-a", servers.controller, "-b", NAME)
    asked = tool.run(*clean, "-l", is_java=False)
    assert "add --yes to confirm" in asked.stderr
