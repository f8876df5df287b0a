"""A NameServer on a real socket with a manual clock, and brokers that only register."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.registration import RegisterBrokerBody, crc32
from kerolox.wire.bodies.routes import ClusterInfo, TopicRouteData
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable, TopicList
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply
from tests.loops import SERVER, Loops


def pytest_asyncio_loop_factories() -> Loops:
    return SERVER


A = TypeVar("A", bound=Header)


def version(counter: int, state: int = 0) -> DataVersion:
    return DataVersion(counter=counter, state_version=state, timestamp=1_700_000_000_000)


def topic(name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag)


STANDARD_TOPICS = (topic("T"), topic("TBW102", 8, perm=7))


class Broker:
    """A broker as the NameServer sees it: one connection and its requests."""

    def __init__(self, namesrv: "NamesrvFixture", name: str, broker_id: int, address: str, cluster: str) -> None:
        self._namesrv = namesrv
        self.name, self.broker_id, self.address, self.cluster = name, broker_id, address, cluster
        self.client = Client()

    async def register(
        self,
        *topics: TopicConfig,
        counter: int = 1,
        state: int = 0,
        enable_acting_master: bool | None = False,
        timeout_millis: int | None = None,
        zone: str | None = None,
        filter_servers: list[str] | None = None,
        body_crc32: int | None = None,
    ) -> Reply[h.BrokerRegistered]:
        table = TopicConfigTable(version(counter, state), {config.topic_name: config for config in topics})
        body = RegisterBrokerBody(filter_servers, table).encode()
        request = h.RegisterBroker(
            broker_name=self.name,
            broker_addr=self.address,
            cluster_name=self.cluster,
            ha_server_addr=f"{self.address}2",
            broker_id=self.broker_id,
            enable_acting_master=enable_acting_master,
            heartbeat_timeout_millis=timeout_millis,
            zone_name=zone,
            body_crc32=crc32(body) if body_crc32 is None else body_crc32,
        )
        return await self.call(request, body)

    async def call(self, request: Request[A], body: bytes = b"") -> Reply[A]:
        return await self.client.call(self._namesrv.address, request, body)

    async def unregister(self) -> None:
        await self.call(
            h.UnregisterBroker(
                broker_id=self.broker_id,
                cluster_name=self.cluster,
                broker_addr=self.address,
                broker_name=self.name,
            )
        )

    async def heartbeat(self) -> None:
        await self.call(h.BrokerHeartbeat(cluster_name=self.cluster, broker_addr=self.address, broker_name=self.name))

    async def data_version(self, counter: int) -> Reply[h.DataVersionCompared]:
        request = h.QueryDataVersion(
            broker_id=self.broker_id,
            cluster_name=self.cluster,
            broker_addr=self.address,
            broker_name=self.name,
        )
        return await self.call(request, version(counter).encode())

    async def disconnect(self) -> None:
        """Close the connection and return when the NameServer has noticed it."""
        open_before = self._namesrv.server.server.connections
        await self.client.close()
        await self._namesrv.until(lambda: self._namesrv.server.server.connections < open_before)


class NamesrvFixture:
    def __init__(self, server: NameServer, clock: ManualClock) -> None:
        self.server = server
        self.config = server.config
        self.clock = clock
        self.address = server.address
        self.client = Client()
        self._brokers: list[Broker] = []

    def broker(
        self, name: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.5:10911", cluster: str = "C"
    ) -> Broker:
        broker = Broker(self, name, broker_id, address, cluster)
        self._brokers.append(broker)
        return broker

    async def call(self, request: Request[A], body: bytes = b"") -> Reply[A]:
        return await self.client.call(self.address, request, body)

    async def route(
        self, name: str = "T", *, zone_mode: bool | None = None, zone_name: str | None = None
    ) -> TopicRouteData:
        request = h.GetRouteInfoByTopic(topic=name, zone_mode=zone_mode, zone_name=zone_name)
        return TopicRouteData.decode((await self.call(request)).body)

    async def queues(self, name: str = "T", broker: str = "broker-a") -> tuple[int, int, int]:
        """Return read queues, write queues and permission of a topic on a broker."""
        (data,) = [data for data in (await self.route(name)).queue_datas if data.broker_name == broker]
        return data.read_queue_nums, data.write_queue_nums, data.perm

    async def addresses(self, name: str = "T", broker: str = "broker-a") -> dict[int, str]:
        (data,) = [data for data in (await self.route(name)).broker_datas if data.broker_name == broker]
        return data.broker_addrs

    async def topics(self, request: Request[Empty] | None = None) -> set[str]:
        body = (await self.call(request or h.GetAllTopicListFromNameserver())).body
        return set(TopicList.decode(body).topic_list)

    async def cluster(self) -> ClusterInfo:
        return ClusterInfo.decode((await self.call(h.GetBrokerClusterInfo())).body)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                await asyncio.sleep(0)

    async def close(self) -> None:
        for broker in self._brokers:
            await broker.client.close()
        await self.client.close()


@pytest.fixture
def config(tmp_path: Path) -> NamesrvConfig:
    config = NamesrvConfig()
    config.listen_port = 0
    config.kv_config_path = tmp_path / "namesrv" / "kvConfig.json"
    config.config_store_path = tmp_path / "namesrv" / "namesrv.properties"
    return config


@pytest.fixture
async def namesrv(config: NamesrvConfig) -> AsyncIterator[NamesrvFixture]:
    clock = ManualClock()
    async with NameServer(config, clock=clock) as server:
        fixture = NamesrvFixture(server, clock)
        yield fixture
        await fixture.close()
