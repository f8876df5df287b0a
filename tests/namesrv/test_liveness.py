"""Who is alive: time-outs, heartbeats, connections, and the news of a new first broker."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.errors import TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.remoting.server import Server
from kerolox.runtime.clock import SystemClock
from kerolox.runtime.service import Supervisor
from kerolox.wire.header import Empty
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture
from tests.remoting.support import Peer, ask_unknown


async def test_a_broker_expires_by_its_own_time_out(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS, timeout_millis=10_000)
    await namesrv.clock.advance(10)
    await namesrv.route("T")

    await namesrv.clock.advance(5.1)

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_there_are_no_more_connections_than_configured(config: NamesrvConfig) -> None:
    config.server_connections_max = 1
    async with NameServer(config) as server, await Peer.to(server.address) as first:
        async with await Peer.to(server.address) as surplus:
            assert await surplus.rest() == b""
        await first.send(ask_unknown(code=1))
        await first.answer()


async def test_the_scan_runs_as_often_as_configured(namesrv: NamesrvFixture) -> None:
    await namesrv.ask(h.UpdateNamesrvConfig(), b"scanNotActiveBrokerInterval=100")
    await namesrv.broker().register(*STANDARD_TOPICS, timeout_millis=10_000)
    await namesrv.clock.advance(10)

    await namesrv.clock.advance(0.2)

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_light_heartbeats_and_version_queries_keep_a_broker_alive(namesrv: NamesrvFixture) -> None:
    broker = namesrv.broker()
    await broker.register(*STANDARD_TOPICS, timeout_millis=10_000)
    for _ in range(3):
        await namesrv.clock.advance(8)
        await broker.heartbeat()
        await namesrv.clock.advance(8)
        await broker.data_version(1)

    assert await namesrv.queues("T") == (4, 4, 6)


async def test_a_heartbeat_of_a_stranger_changes_nothing(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("stranger").heartbeat()

    assert (await namesrv.cluster()).broker_addr_table == {}


async def test_the_end_of_a_replaced_connection_is_not_the_end_of_the_broker(namesrv: NamesrvFixture) -> None:
    before, after = namesrv.broker(), namesrv.broker()
    await before.register(*STANDARD_TOPICS)
    await after.register(*STANDARD_TOPICS)

    await before.disconnect()
    assert await namesrv.queues("T") == (4, 4, 6)

    await after.disconnect()
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_all_brokers_of_one_connection_leave_with_it(namesrv: NamesrvFixture) -> None:
    """Several brokers of one container share a connection."""
    first, second = namesrv.broker("first", address="10.0.0.1:1"), namesrv.broker("second", address="10.0.0.2:1")
    second.client = first.client
    await first.register(*STANDARD_TOPICS)
    await second.register(*STANDARD_TOPICS)

    await first.disconnect()

    assert (await namesrv.cluster()).broker_addr_table == {}


class Listener:
    """A broker's own port, on which it hears what the NameServer tells."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[h.NotifyMinBrokerIdChange] = asyncio.Queue()
        self.server = Server(Routes(self), host="127.0.0.1", port=0, clock=SystemClock())

    @handles(h.NotifyMinBrokerIdChange)
    def hear(self, request: Incoming[h.NotifyMinBrokerIdChange]) -> Reply[Empty]:
        self.heard.put_nowait(request.header)
        return Reply()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    async with Supervisor(listener.server):
        yield listener


async def test_a_slave_is_told_when_its_master_comes_and_goes(namesrv: NamesrvFixture, listener: Listener) -> None:
    namesrv.config.notify_min_broker_id_changed = True
    slave_address = listener.server.address
    await namesrv.broker(broker_id=1, address=slave_address).register(*STANDARD_TOPICS, enable_acting_master=True)
    master = namesrv.broker(broker_id=0, address="127.0.0.1:1")

    await master.register(*STANDARD_TOPICS, enable_acting_master=True)
    async with asyncio.timeout(5):
        come = await listener.heard.get()
    await master.disconnect()
    async with asyncio.timeout(5):
        gone = await listener.heard.get()

    assert come == h.NotifyMinBrokerIdChange(
        min_broker_id=0, min_broker_addr="127.0.0.1:1", ha_broker_addr="127.0.0.1:12"
    )
    assert gone == h.NotifyMinBrokerIdChange(
        min_broker_id=1, min_broker_addr=slave_address, offline_broker_addr="127.0.0.1:1"
    )


async def test_nobody_is_told_unless_configured(namesrv: NamesrvFixture, listener: Listener) -> None:
    slave = namesrv.broker(broker_id=1, address=listener.server.address)
    await slave.register(*STANDARD_TOPICS, enable_acting_master=True)

    await namesrv.broker(broker_id=0, address="127.0.0.1:1").register(*STANDARD_TOPICS, enable_acting_master=True)

    assert listener.heard.empty()
