"""Members of groups come and go, over real sockets, and the others are told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kerolox.broker import clients as module
from kerolox.broker.errors import InvalidParameter
from kerolox.errors import SystemBusy
from kerolox.remoting.client import Client
from kerolox.remoting.routes import Incoming, Routes, handles
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.clients import ConsumerData, ConsumerList, HeartbeatData, SubscriptionData
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.header import Empty
from kerolox.wire.headers.clients import (
    GetConsumerListByGroup,
    HeartBeat,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, running


class Member:
    """A client of the broker that notes which groups it is told of."""

    def __init__(self, broker: BrokerFixture, client_id: str) -> None:
        self.client_id = client_id
        self.client = Client(Routes(self))
        self.connected = BrokerFixture(broker.broker, self.client)
        self._told: asyncio.Queue[str] = asyncio.Queue()

    @handles(NotifyConsumerIdsChanged)
    def changed(self, request: Incoming[NotifyConsumerIdsChanged]) -> Reply[Empty]:
        self._told.put_nowait(request.header.consumer_group)
        return Reply()

    async def join(self, group: str = "group") -> None:
        await self.connected.heartbeat(self.client_id, consumes={group: ["orders"]})

    async def leave(self, group: str = "group") -> None:
        await self.connected.call(UnregisterClient(client_id=self.client_id, consumer_group=group))

    async def told(self) -> str:
        async with asyncio.timeout(30):
            return await self._told.get()

    async def told_so_far(self, group: str = "group") -> list[str]:
        """Returns what it was told before the broker answers it now: both come on one connection."""
        await self.members(group)
        return [self._told.get_nowait() for _ in range(self._told.qsize())]

    async def members(self, group: str = "group") -> list[str]:
        reply = await self.connected.call(GetConsumerListByGroup(consumer_group=group))
        return sorted(ConsumerList.decode(reply.body).consumer_id_list)


@asynccontextmanager
async def member(broker: BrokerFixture, client_id: str) -> AsyncIterator[Member]:
    made = Member(broker, client_id)
    async with made.client:
        yield made


def subscribing(*topics: str, text: str = "*", version: int = 0, group: str = "group") -> bytes:
    subscriptions = [SubscriptionData(topic=topic, sub_string=text, sub_version=version) for topic in topics]
    consumer = ConsumerData(group_name=group, message_model="CLUSTERING", subscription_data_set=subscriptions)
    return HeartbeatData(client_id="c", consumer_data_set=[consumer]).encode()


async def until_gone(broker: BrokerFixture, group: str = "group") -> None:
    async with asyncio.timeout(30):
        while group in broker.broker.clients.consumers:
            await asyncio.sleep(0)


async def test_members_are_told_when_another_joins_and_when_it_leaves(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one, member(broker, "two") as two:
        await one.join()
        assert await one.told() == "group"

        await two.join()
        assert (await one.told(), await two.told()) == ("group", "group")
        assert await one.members() == ["one", "two"]
        # A heartbeat that says nothing new is no change.
        await two.join()
        assert (await one.told_so_far(), await two.told_so_far()) == ([], [])

        await two.leave()
        assert await one.told() == "group"
        assert await one.members() == ["one"]
        assert await two.told_so_far() == []


async def test_members_are_told_when_the_connection_of_another_dies(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one:
        await one.join()
        async with member(broker, "two") as two:
            await two.join()
            assert [await one.told() for _ in range(2)] == ["group", "group"]

        assert await one.told() == "group"

        assert await one.members() == ["one"]


async def test_members_that_broadcast_have_nothing_to_share_out(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one:
        await one.join()
        await one.told()
        broker.broker.clients.consumers["group"].message_model = "BROADCASTING"

        broker.broker.clients.notify("group")

        assert await one.told_so_far() == []


async def test_members_are_not_told_where_the_broker_tells_nobody(tmp_path: Path) -> None:
    async with (
        running(tmp_path, notifyConsumerIdsChangedEnable="false") as broker,
        member(broker, "one") as one,
        member(broker, "two") as two,
    ):
        await one.join()
        await two.join()
        assert (await one.members(), await one.told_so_far()) == (["one", "two"], [])

        broker.broker.settings.update({"notifyConsumerIdsChangedEnable": "true"})
        await two.leave()

        assert await one.told() == "group"


async def test_members_are_not_told_where_their_group_does_not_want_it(broker: BrokerFixture) -> None:
    quiet = SubscriptionGroupConfig(group_name="quiet", notify_consumer_ids_changed_enable=False)
    broker.broker.groups.put(quiet)
    async with member(broker, "one") as one, member(broker, "two") as two:
        await one.join("quiet")
        await two.join("quiet")
        await one.join("other")

        assert await one.told_so_far("other") == ["other"]


async def test_who_sends_no_heartbeat_for_two_minutes_is_out_and_the_others_are_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running(tmp_path, clock) as broker,
        member(broker, "lively") as lively,
        member(broker, "silent") as silent,
    ):
        await lively.join()
        await silent.join()
        await silent.connected.heartbeat("silent", consumes={"group": ["orders"]}, produces=("producers",))
        await lively.told_so_far()
        await clock.advance(115)
        assert await lively.members() == ["lively", "silent"]
        await lively.join()

        await clock.advance(20)

        assert await lively.told() == "group"
        assert await lively.members() == ["lively"]
        assert broker.broker.clients.producers == {}
        await clock.advance(120)
        await until_gone(broker)


async def test_two_processes_of_one_client_id_are_warned_of(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async with member(broker, "same") as one, member(broker, "same") as two:
        await one.join()
        assert not [text for text in caplog.messages if "give each process its own" in text]

        await two.join()

        (warning,) = [text for text in caplog.messages if "give each process its own" in text]
        assert warning.startswith("client id same of group group comes from 127.0.0.1:")
        assert await one.members() == ["same", "same"]


async def test_two_producers_of_one_client_id_are_warned_of(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async with member(broker, "same") as one, member(broker, "same") as two:
        for _ in range(2):
            await one.connected.heartbeat("same", produces=("producers",))
        await two.connected.heartbeat("other", produces=("others",))
        assert not [text for text in caplog.messages if "give each process its own" in text]

        for _ in range(2):
            await two.connected.heartbeat("same", produces=("producers",))

        (warning,) = [text for text in caplog.messages if "give each process its own" in text]
        assert warning.startswith("client id same of group producers comes from 127.0.0.1:")


async def test_the_newest_subscription_counts_and_one_less_is_a_change(broker: BrokerFixture) -> None:
    group = broker.broker.clients.consumers
    await broker.call(HeartBeat(), subscribing("orders", "bills", text="a", version=2))
    await broker.call(HeartBeat(), subscribing("orders", text="b", version=1))

    assert {topic: found.sub_string for topic, found in group["group"].subscriptions.items()} == {"orders": "a"}
    await broker.call(HeartBeat(), subscribing("orders", text="c", version=3))
    assert group["group"].subscriptions["orders"].sub_string == "c"


async def test_one_connection_may_subscribe_to_so_much(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SUBSCRIBED_SIZE_MAX", 100_000)
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, group="one"))

    with pytest.raises(InvalidParameter, match=r"the subscriptions of one connection take .* at most 100000 allowed"):
        await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, group="two"))
    assert list(broker.broker.clients.consumers) == ["one"]

    # What it leaves makes room, and so does less of the same.
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 10_000, group="one", version=1))
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, group="two"))
    await broker.call(UnregisterClient(client_id="c", consumer_group="two"))
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 80_000, group="three"))
    assert list(broker.broker.clients.consumers) == ["one", "three"]


async def test_all_groups_may_subscribe_to_so_much(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a version that is kept is longer than the one that the last heartbeat was counted with."""
    monkeypatch.setattr(module, "_SUBSCRIBED_SIZE_TOTAL_MAX", 100_000)
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, version=2))
    await broker.call(HeartBeat(), subscribing("orders", text="x", version=1))

    with pytest.raises(SystemBusy, match="the subscriptions of all groups take"):
        await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, group="other"))

    await broker.call(UnregisterClient(client_id="c", consumer_group="group"))
    await broker.call(HeartBeat(), subscribing("orders", text="x" * 60_000, group="other"))
