"""Broker expiry, heartbeats, connections, and notices of a new minimum broker id."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kerolox.errors import TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import SystemClock
from kerolox.runtime.service import Supervisor
from kerolox.wire.header import Empty
from kerolox.wire.headers import namesrv as h
from kerolox.wire.reply import Reply
from tests.namesrv.conftest import STANDARD_TOPICS, NamesrvFixture
from tests.remoting.support import Peer, ask_unknown


async def test_a_broker_expires_after_its_own_timeout(namesrv: NamesrvFixture) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS, timeout_millis=10_000)
    await namesrv.clock.advance(10)
    await namesrv.route("T")

    await namesrv.clock.advance(5.1)

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_the_number_of_connections_is_limited(config: NamesrvConfig) -> None:
    config.server_connections_max = 1
    async with NameServer(config) as server, await Peer.to(server.address) as first:
        async with await Peer.to(server.address) as surplus:
            assert await surplus.rest() == b""
        await first.send(ask_unknown(code=1))
        await first.answer()


async def test_the_scan_runs_as_often_as_configured(namesrv: NamesrvFixture) -> None:
    await namesrv.call(h.UpdateNamesrvConfig(), b"scanNotActiveBrokerInterval=100")
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


async def test_a_heartbeat_of_an_unregistered_broker_changes_nothing(namesrv: NamesrvFixture) -> None:
    await namesrv.broker("unregistered").heartbeat()

    assert (await namesrv.cluster()).broker_addr_table == {}


async def test_closing_a_replaced_connection_does_not_remove_the_broker(namesrv: NamesrvFixture) -> None:
    before, after = namesrv.broker(), namesrv.broker()
    await before.register(*STANDARD_TOPICS)
    await after.register(*STANDARD_TOPICS)

    await before.disconnect()
    assert await namesrv.queues("T") == (4, 4, 6)

    await after.disconnect()
    with pytest.raises(TopicNotFound):
        await namesrv.route("T")


async def test_closing_a_connection_removes_all_brokers_registered_on_it(namesrv: NamesrvFixture) -> None:
    """The brokers of a BrokerContainer share a connection."""
    first, second = namesrv.broker("first", address="10.0.0.1:1"), namesrv.broker("second", address="10.0.0.2:1")
    second.client = first.client
    await first.register(*STANDARD_TOPICS)
    await second.register(*STANDARD_TOPICS)

    await first.disconnect()

    assert (await namesrv.cluster()).broker_addr_table == {}


class Listener:
    """The port of a broker, where it receives notices of the NameServer."""

    def __init__(self) -> None:
        self.notices: asyncio.Queue[h.NotifyMinBrokerIdChange] = asyncio.Queue()
        self.server = Server(Router(self), host="127.0.0.1", port=0, clock=SystemClock())

    @handles(h.NotifyMinBrokerIdChange)
    def notified(self, request: Incoming[h.NotifyMinBrokerIdChange]) -> Reply[Empty]:
        self.notices.put_nowait(request.header)
        return Reply()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    async with Supervisor(listener.server):
        yield listener


async def test_a_slave_is_notified_when_its_master_registers_and_disconnects(
    namesrv: NamesrvFixture, listener: Listener
) -> None:
    namesrv.config.notify_min_broker_id_changed = True
    slave_address = listener.server.address
    await namesrv.broker(broker_id=1, address=slave_address).register(*STANDARD_TOPICS, enable_acting_master=True)
    master = namesrv.broker(broker_id=0, address="127.0.0.1:1")

    await master.register(*STANDARD_TOPICS, enable_acting_master=True)
    async with asyncio.timeout(5):
        registered = await listener.notices.get()
    await master.disconnect()
    async with asyncio.timeout(5):
        disconnected = await listener.notices.get()

    assert registered == h.NotifyMinBrokerIdChange(
        min_broker_id=0, min_broker_addr="127.0.0.1:1", ha_broker_addr="127.0.0.1:12"
    )
    assert disconnected == h.NotifyMinBrokerIdChange(
        min_broker_id=1, min_broker_addr=slave_address, offline_broker_addr="127.0.0.1:1"
    )


async def test_no_notification_is_sent_unless_configured(namesrv: NamesrvFixture, listener: Listener) -> None:
    slave = namesrv.broker(broker_id=1, address=listener.server.address)
    await slave.register(*STANDARD_TOPICS, enable_acting_master=True)

    await namesrv.broker(broker_id=0, address="127.0.0.1:1").register(*STANDARD_TOPICS, enable_acting_master=True)

    assert listener.notices.empty()


@pytest.mark.parametrize("seconds", [60, 3600, 10 * 365 * 86_400])
@pytest.mark.parametrize("sign", [1, -1])
async def test_setting_the_wall_clock_neither_expires_nor_keeps_brokers(
    namesrv: NamesrvFixture, seconds: int, sign: int
) -> None:
    await namesrv.broker().register(*STANDARD_TOPICS, timeout_millis=10_000)
    namesrv.clock.step(sign * seconds)
    await namesrv.clock.advance(9)
    await namesrv.route("T")

    await namesrv.clock.advance(6.1)

    with pytest.raises(TopicNotFound):
        await namesrv.route("T")
