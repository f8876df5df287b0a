"""The registry of clients, with members that join and leave groups over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables import client_registry as module
from kerolox.errors import SystemBusy
from kerolox.remoting.client import Client
from kerolox.remoting.router import Incoming, Router, handles
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
    """A client of the broker that collects the notices about its groups."""

    def __init__(self, broker: BrokerFixture, client_id: str) -> None:
        self.client_id = client_id
        self.client = Client(Router(self))
        self.connected = BrokerFixture(broker.broker, self.client)
        self._notices: asyncio.Queue[str] = asyncio.Queue()

    @handles(NotifyConsumerIdsChanged)
    def changed(self, request: Incoming[NotifyConsumerIdsChanged]) -> Reply[Empty]:
        self._notices.put_nowait(request.header.consumer_group)
        return Reply()

    async def join(self, group: str = "group") -> None:
        await self.connected.heartbeat(self.client_id, consumes={group: ["orders"]})

    async def leave(self, group: str = "group") -> None:
        await self.connected.call(UnregisterClient(client_id=self.client_id, consumer_group=group))

    async def next_notice(self) -> str:
        async with asyncio.timeout(30):
            return await self._notices.get()

    async def notices_so_far(self, group: str = "group") -> list[str]:
        """Return the notices before a response that is requested now: both arrive on one connection, in order."""
        await self.members(group)
        return [self._notices.get_nowait() for _ in range(self._notices.qsize())]

    async def members(self, group: str = "group") -> list[str]:
        reply = await self.connected.call(GetConsumerListByGroup(consumer_group=group))
        return sorted(ConsumerList.decode(reply.body).consumer_id_list)


@asynccontextmanager
async def member(broker: BrokerFixture, client_id: str) -> AsyncIterator[Member]:
    joining = Member(broker, client_id)
    async with joining.client:
        yield joining


def heartbeat_body(*topics: str, text: str = "*", version: int = 0, group: str = "group") -> bytes:
    subscriptions = [SubscriptionData(topic=topic, sub_string=text, sub_version=version) for topic in topics]
    consumer = ConsumerData(group_name=group, message_model="CLUSTERING", subscription_data_set=subscriptions)
    return HeartbeatData(client_id="c", consumer_data_set=[consumer]).encode()


async def until_gone(broker: BrokerFixture, group: str = "group") -> None:
    async with asyncio.timeout(30):
        while group in broker.broker.clients.consumers:
            await asyncio.sleep(0)


async def test_members_are_notified_when_another_joins_or_leaves(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one, member(broker, "two") as two:
        await one.join()
        assert await one.next_notice() == "group"

        await two.join()
        assert (await one.next_notice(), await two.next_notice()) == ("group", "group")
        assert await one.members() == ["one", "two"]
        # A heartbeat without changes causes no notice.
        await two.join()
        assert (await one.notices_so_far(), await two.notices_so_far()) == ([], [])

        await two.leave()
        assert await one.next_notice() == "group"
        assert await one.members() == ["one"]
        assert await two.notices_so_far() == []


async def test_members_are_notified_when_the_connection_of_another_closes(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one:
        await one.join()
        async with member(broker, "two") as two:
            await two.join()
            assert [await one.next_notice() for _ in range(2)] == ["group", "group"]

        assert await one.next_notice() == "group"

        assert await one.members() == ["one"]


async def test_members_of_a_broadcasting_group_are_not_notified(broker: BrokerFixture) -> None:
    async with member(broker, "one") as one:
        await one.join()
        await one.next_notice()
        broker.broker.clients.consumers["group"].message_model = "BROADCASTING"

        broker.broker.clients.notify("group")

        assert await one.notices_so_far() == []


async def test_members_are_not_notified_if_the_broker_disables_it(tmp_path: Path) -> None:
    async with (
        running(tmp_path, notifyConsumerIdsChangedEnable="false") as broker,
        member(broker, "one") as one,
        member(broker, "two") as two,
    ):
        await one.join()
        await two.join()
        assert (await one.members(), await one.notices_so_far()) == (["one", "two"], [])

        broker.broker.settings.update({"notifyConsumerIdsChangedEnable": "true"})
        await two.leave()

        assert await one.next_notice() == "group"


async def test_members_are_not_notified_if_their_group_disables_it(broker: BrokerFixture) -> None:
    quiet = SubscriptionGroupConfig(group_name="quiet", notify_consumer_ids_changed_enable=False)
    broker.broker.groups.put(quiet)
    async with member(broker, "one") as one, member(broker, "two") as two:
        await one.join("quiet")
        await two.join("quiet")
        await one.join("other")

        assert await one.notices_so_far("other") == ["other"]


async def test_a_client_without_a_heartbeat_for_two_minutes_is_removed_and_the_others_notified(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running(tmp_path, clock) as broker,
        member(broker, "active") as active,
        member(broker, "silent") as silent,
    ):
        await active.join()
        await silent.join()
        await silent.connected.heartbeat("silent", consumes={"group": ["orders"]}, produces=("producers",))
        await active.notices_so_far()
        await clock.advance(115)
        assert await active.members() == ["active", "silent"]
        await active.join()

        await clock.advance(20)

        assert await active.next_notice() == "group"
        assert await active.members() == ["active"]
        assert broker.broker.clients.producers == {}
        await clock.advance(120)
        await until_gone(broker)


async def test_two_consumers_with_one_client_id_are_warned_about(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async with member(broker, "same") as one, member(broker, "same") as two:
        await one.join()
        assert not [text for text in caplog.messages if "give each process its own" in text]

        await two.join()

        (warning,) = [text for text in caplog.messages if "give each process its own" in text]
        assert warning.startswith("client id same of group group is used by 127.0.0.1:")
        assert await one.members() == ["same", "same"]


async def test_two_producers_with_one_client_id_are_warned_about(
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
        assert warning.startswith("client id same of group producers is used by 127.0.0.1:")


@pytest.mark.parametrize(
    "group", ["CLIENT_INNER_PRODUCER", "_INNER_TRACE_PRODUCER", "_INNER_TRACE_PRODUCER-group-PRODUCE-1"]
)
async def test_internal_producers_of_java_clients_are_not_warned_about(
    broker: BrokerFixture, caplog: pytest.LogCaptureFixture, group: str
) -> None:
    async with member(broker, "same") as one, member(broker, "same") as two:
        await one.connected.heartbeat("same", produces=(group,))
        await two.connected.heartbeat("same", produces=(group,))

        assert len(broker.broker.clients.producers[group]) == 2
        assert [text for text in caplog.messages if "give each process its own" in text] == []


async def test_the_newest_version_of_a_subscription_counts_and_a_removed_topic_is_a_change(
    broker: BrokerFixture,
) -> None:
    group = broker.broker.clients.consumers
    await broker.call(HeartBeat(), heartbeat_body("orders", "bills", text="a", version=2))
    await broker.call(HeartBeat(), heartbeat_body("orders", text="b", version=1))

    assert {topic: found.sub_string for topic, found in group["group"].subscriptions.items()} == {"orders": "a"}
    await broker.call(HeartBeat(), heartbeat_body("orders", text="c", version=3))
    assert group["group"].subscriptions["orders"].sub_string == "c"


async def test_subscriptions_of_one_connection_are_limited(
    broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SUBSCRIPTION_SIZE_PER_CONNECTION_MAX", 100_000)
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, group="one"))

    with pytest.raises(InvalidParameter, match=r"the subscriptions of one connection take .* at most 100000 allowed"):
        await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, group="two"))
    assert list(broker.broker.clients.consumers) == ["one"]

    # Smaller subscriptions and leaving a group free memory.
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 10_000, group="one", version=1))
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, group="two"))
    await broker.call(UnregisterClient(client_id="c", consumer_group="two"))
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 80_000, group="three"))
    assert list(broker.broker.clients.consumers) == ["one", "three"]


async def test_subscriptions_of_all_groups_are_limited(broker: BrokerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a newer version that is kept is larger than the one in the last heartbeat."""
    monkeypatch.setattr(module, "_SUBSCRIPTION_SIZE_TOTAL_MAX", 100_000)
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, version=2))
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x", version=1))

    with pytest.raises(SystemBusy, match="the subscriptions of all groups take"):
        await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, group="other"))

    await broker.call(UnregisterClient(client_id="c", consumer_group="group"))
    await broker.call(HeartBeat(), heartbeat_body("orders", text="x" * 60_000, group="other"))
