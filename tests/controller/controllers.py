"""A controller on a real socket with a manual clock, and brokers that only speak the controller's protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kerolox.controller import Controller, ControllerConfig
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import ManualClock, SystemClock
from kerolox.runtime.files import Disk
from kerolox.wire.bodies.controller import BrokerReplicasInfo, ReplicasInfo, SyncStateSet
from kerolox.wire.command import Command
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.headers import controller as h
from kerolox.wire.headers.namesrv import BrokerHeartbeat
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)
NAME, CLUSTER = "broker-a", "C"


class Notices:
    """Collects the notices that a broker gets."""

    def __init__(self) -> None:
        self.received: list[tuple[h.NotifyBrokerRoleChanged, SyncStateSet]] = []

    @handles(h.NotifyBrokerRoleChanged)
    def notice(self, request: Incoming[h.NotifyBrokerRoleChanged]) -> Reply[Empty]:
        self.received.append((request.header, SyncStateSet.decode(request.body)))
        return Reply()


class FakeBroker:
    """A broker as the controller sees it: a connection to it, requests, and a port for notices."""

    def __init__(self, controller: "ControllerFixture", name: str) -> None:
        self._controller = controller
        self.name = name
        self.broker_id = 0
        self.notices = Notices()
        self._server = Server(Router(self.notices), host="127.0.0.1", port=0, clock=SystemClock())
        self.client = Client()

    async def open(self) -> None:
        await self._server.open()
        self.address = self._server.address

    async def close(self) -> None:
        await self.client.close()
        await self._server.close()

    async def call(self, request: Request[A], body: bytes = b"") -> Reply[A]:
        return await self.client.call(self._controller.address, request, body)

    async def ask(self, request: Request[Any], body: bytes = b"") -> Command:
        """Return the answer whatever its code."""
        return await (await self.client.connection(self._controller.address)).ask(request, body)

    async def join(self) -> "FakeBroker":
        """Get an id, register, and send a heartbeat, as a broker does when it starts."""
        found = await self.call(h.GetNextBrokerId(cluster_name=CLUSTER, broker_name=self.name))
        assert found.fields.next_broker_id is not None
        self.broker_id = found.fields.next_broker_id
        await self.call(
            h.ApplyBrokerId(
                applied_broker_id=self.broker_id,
                register_check_code=f"{self.address};17",
                cluster_name=CLUSTER,
                broker_name=self.name,
            )
        )
        await self.register()
        await self.heartbeat()
        return self

    async def register(self) -> Reply[h.BrokerRegisteredAtController]:
        return await self.call(
            h.RegisterBrokerToController(
                broker_id=self.broker_id, cluster_name=CLUSTER, broker_name=self.name, broker_address=self.address
            )
        )

    async def heartbeat(self, *, epoch: int = 1, max_offset: int = 0, timeout_millis: int | None = None) -> None:
        await self.call(
            BrokerHeartbeat(
                broker_id=self.broker_id,
                cluster_name=CLUSTER,
                broker_addr=self.address,
                broker_name=self.name,
                epoch=epoch,
                max_offset=max_offset,
                heartbeat_timeout_mills=timeout_millis,
            )
        )

    async def elect(self) -> Command:
        return await self.ask(h.ElectMaster(broker_id=self.broker_id, cluster_name=CLUSTER, broker_name=self.name))

    async def alter(self, *members: int, master_epoch: int, set_epoch: int) -> Reply[h.SyncStateSetAltered]:
        request = h.AlterSyncStateSet(master_broker_id=self.broker_id, broker_name=self.name, master_epoch=master_epoch)
        return await self.call(request, SyncStateSet(list(members), set_epoch).encode())

    async def disconnect(self) -> None:
        """Close the connection; return when the controller has noticed it."""
        before = self._controller.server.server.connections
        await self.client.close()
        self.client = Client()
        await until(lambda: self._controller.server.server.connections < before)


class ControllerFixture:
    def __init__(self, server: Controller, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.address = server.address
        self.client = Client()
        self._brokers: list[FakeBroker] = []

    async def broker(self, name: str = NAME) -> FakeBroker:
        broker = FakeBroker(self, name)
        await broker.open()
        self._brokers.append(broker)
        return broker

    async def group(self, size: int = 3) -> list[FakeBroker]:
        """Return brokers of one group; the first is master, and all hold everything."""
        brokers = [await (await self.broker()).join()]
        await brokers[0].elect()
        brokers += [await (await self.broker()).join() for _ in range(size - 1)]
        if size > 1:
            await brokers[0].alter(*range(1, size + 1), master_epoch=1, set_epoch=1)
        return brokers

    async def call(self, request: Request[A], body: bytes = b"") -> Reply[A]:
        return await self.client.call(self.address, request, body)

    async def info(self, name: str = NAME) -> ReplicasInfo:
        reply = await self.call(h.GetSyncStateData(), f'["{name}"]'.encode())
        return BrokerReplicasInfo.decode(reply.body).replicas_info_table[name]

    async def until_master(self, broker_id: int | None) -> ReplicasInfo:
        async with asyncio.timeout(10):
            while (info := await self.info()).master_broker_id != broker_id:
                await asyncio.sleep(0.001)
        return info

    async def close(self) -> None:
        for broker in self._brokers:
            await broker.close()
        await self.client.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def config_in(directory: Path) -> ControllerConfig:
    config = ControllerConfig()
    config.listen_port = 0
    config.controller_store_path = directory / "controller"
    config.config_store_path = directory / "controller.properties"
    return config


@asynccontextmanager
async def running(
    config: ControllerConfig, *, clock: ManualClock | None = None, disk: Disk | None = None
) -> AsyncIterator[ControllerFixture]:
    clock = clock or ManualClock()
    async with AsyncExitStack() as stack, Controller(config, clock=clock, disk=disk) as server:
        fixture = ControllerFixture(server, clock)
        # After the controller: brokers that leave before it would cause elections.
        stack.push_async_callback(fixture.close)
        yield fixture
