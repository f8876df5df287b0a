"""A broker whose commit log was cut while it was stopped, as a replica does after a failover."""

from pathlib import Path

from kerolox.broker import Broker
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from tests.broker.brokers import BrokerFixture, settings


async def test_a_group_gets_the_messages_that_replace_those_cut_off_the_log(tmp_path: Path) -> None:
    async with Broker(settings(tmp_path)) as started, Client() as client:
        broker = BrokerFixture(started, client)
        for number in range(5):
            await broker.send("orders", b"old %d" % number)
        cut = (await broker.messages("orders"))[3].physical_offset
        started.offsets.commit("g", "orders", 0, 5)
        started.store.request_truncation(cut)

    async with Broker(settings(tmp_path)) as started, Client() as client:
        broker = BrokerFixture(started, client)
        for number in range(3):
            await broker.send("orders", b"new %d" % number)
        committed = started.offsets.get("g", "orders", 0)
        assert committed == 3
        pulled = await broker.pull("orders", committed)
        assert [message.body for message in decode_all(pulled.body)] == [b"new 0", b"new 1", b"new 2"]
        assert len(await broker.messages("orders")) == 6
