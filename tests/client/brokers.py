"""Fake brokers that refuse, stay silent or drop connections as scripted, and a NameServer that lists them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kerolox.codes import ResponseCode
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, handles
from kerolox.remoting.server.server import Server
from kerolox.wire.bodies.registration import RegisterBrokerBody
from kerolox.wire.bodies.topics import TopicConfig, TopicConfigTable
from kerolox.wire.header import Empty
from kerolox.wire.headers import messages as m
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken, UnregisterClient
from kerolox.wire.headers.namesrv import RegisterBroker
from kerolox.wire.headers.offsets import GetMaxOffset, OffsetFound
from kerolox.wire.reply import Reply
from tests.remoting.support import serving

TOPIC = "orders"


class ScriptedBroker:
    """Responds to sends with the codes in `script`, then SUCCESS; None stays silent, DROP aborts the connection."""

    DROP = -1

    def __init__(self, name: str, *script: int | None) -> None:
        self.name = name
        self.script = list(script)
        self.sent: list[m.SendMessageV2] = []
        self.bodies: list[bytes] = []
        self.replies: list[m.SendReplyMessageV2] = []
        self.ended: list[m.EndTransaction] = []
        self.is_silent = False
        self.server: Server

    async def _respond(self, request: Incoming[m.SendMessageV2]) -> Reply[m.Sent]:
        self.sent.append(request.header)
        self.bodies.append(request.body)
        step = self.script.pop(0) if self.script else ResponseCode.SUCCESS
        if step is None or self.is_silent:
            await asyncio.Event().wait()
        if step == self.DROP:
            request.connection.abort()
        offset = len(self.sent) - 1
        header = m.Sent(msg_id=f"7F00000100002A9F{offset:016X}", queue_id=request.header.queue_id, queue_offset=offset)
        return Reply(header, code=step, remark=None if step == 0 else "as the script says")  # type: ignore[arg-type]

    @handles(m.SendMessageV2)
    async def send(self, request: Incoming[m.SendMessageV2]) -> Reply[m.Sent]:
        return await self._respond(request)

    @handles(m.SendBatchMessage)
    async def send_batch(self, request: Incoming[m.SendBatchMessage]) -> Reply[m.Sent]:
        return await self._respond(request)  # type: ignore[arg-type]

    @handles(GetMaxOffset)
    async def max_offset(self, request: Incoming[GetMaxOffset]) -> Reply[OffsetFound]:
        if self.is_silent:
            await asyncio.Event().wait()
        return Reply(OffsetFound(offset=0))

    @handles(m.EndTransaction)
    def end(self, request: Incoming[m.EndTransaction]) -> Reply[Empty]:
        self.ended.append(request.header)
        return Reply()

    @handles(HeartBeat)
    def heartbeat(self, request: Incoming[HeartBeat]) -> Reply[HeartbeatTaken]:
        return Reply(HeartbeatTaken())

    @handles(UnregisterClient)
    def unregister(self, request: Incoming[UnregisterClient]) -> Reply[Empty]:
        return Reply()


class ScriptedCluster:
    """A NameServer, and the brokers that it lists, whether they exist or not."""

    def __init__(self, name_server: NameServer, client: Client) -> None:
        self._name_server = name_server
        self._client = client

    @property
    def namesrv_addr(self) -> str:
        return self._name_server.address

    async def list_broker(self, name: str, address: str, *topics: str, queues: int = 2) -> None:
        configs = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            for topic in topics or (TOPIC, "TBW102")
        }
        await self._client.call(
            self.namesrv_addr,
            RegisterBroker(
                broker_id=0, cluster_name="C", broker_addr=address, ha_server_addr="127.0.0.1:1", broker_name=name
            ),
            RegisterBrokerBody(None, TopicConfigTable(topic_config_table=configs)).encode(),
        )

    @asynccontextmanager
    async def broker(self, name: str, *script: int | None) -> AsyncIterator[ScriptedBroker]:
        broker = ScriptedBroker(name, *script)
        async with serving(broker) as broker.server:
            await self.list_broker(name, broker.server.address)
            yield broker


@asynccontextmanager
async def scripted_cluster(directory: Path) -> AsyncIterator[ScriptedCluster]:
    config = NamesrvConfig(
        listen_port=0,
        kv_config_path=directory / "kvConfig.json",
        config_store_path=directory / "namesrv.properties",
    )
    async with NameServer(config) as name_server, Client() as client:
        yield ScriptedCluster(name_server, client)
