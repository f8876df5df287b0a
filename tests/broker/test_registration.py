"""Registration on a clock that the test owns, with NameServers of all kinds."""

import asyncio
import logging
import time
from pathlib import Path

import pytest

from kerolox.errors import TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.headers import namesrv as h
from tests.broker.name_servers import IDENTITY, FakeNameServer, registering, until

DEAD = "127.0.0.1:1"


async def test_all_name_servers_know_it_when_it_has_started_and_none_when_it_has_ended(tmp_path: Path) -> None:
    async with FakeNameServer() as one, FakeNameServer() as two:
        async with registering(tmp_path, one.address, two.address) as broker:
            assert broker.registration.registered == [one.address, two.address]
            assert one.topics == two.topics == [sorted(broker.topics.topics)]
            assert one.headers[0].heartbeat_timeout_millis == 10_000

        assert one.unregistered == two.unregistered == [IDENTITY.address]


async def test_it_registers_anew_every_period(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        await broker.pass_time(29)
        assert len(namesrv.bodies) == 1

        await broker.pass_time(1)
        await until(lambda: len(namesrv.bodies) == 2)

        await broker.pass_time(30)
        await until(lambda: len(namesrv.bodies) == 3)


async def test_without_force_it_asks_first_and_tells_only_what_is_not_known(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, forceRegister="false") as broker:
        await broker.pass_time(30)
        await until(lambda: namesrv.questions == 1)
        assert len(namesrv.bodies) == 1

        broker.topics.touch()
        await broker.pass_time(30)
        await until(lambda: len(namesrv.bodies) == 2)
        assert namesrv.versions[-1] == broker.topics.data_version


async def test_a_new_topic_is_told_at_once_and_alone(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: len(namesrv.bodies) == 2)

        assert namesrv.topics[-1] == ["orders"]
        assert namesrv.versions[-1] == broker.topics.data_version


async def test_a_name_server_that_refuses_a_topic_is_told_everything(tmp_path: Path) -> None:
    """It may have lost the broker, and 5.x refuses a broker that begins with one topic."""
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        namesrv.refuses = True
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: len(namesrv.bodies) == 3)
        namesrv.refuses = False
        await broker.pass_time(6)
        await until(lambda: broker.registration.registered)

        assert namesrv.topics[1] == ["orders"]
        assert namesrv.topics[2] == namesrv.topics[3] == sorted(broker.topics.topics)


async def test_light_heartbeats_go_to_those_that_know_them_and_to_nobody_else(tmp_path: Path) -> None:
    async with FakeNameServer() as young, FakeNameServer() as old:
        old.knows_heartbeats = False
        async with registering(tmp_path, young.address, old.address) as broker:
            await broker.pass_time(10)
            await until(lambda: young.heartbeats == 11)

            # Each was asked once whether it knows them.
            assert old.heartbeats == 1
            assert old.headers[0].heartbeat_timeout_millis is None


async def test_who_says_late_that_it_knows_heartbeats_is_promised_them_late(tmp_path: Path) -> None:
    async with FakeNameServer() as slow:
        slow.may_answer_heartbeats.clear()
        async with registering(tmp_path, slow.address) as broker:
            assert [header.heartbeat_timeout_millis for header in slow.headers] == [None]

            slow.may_answer_heartbeats.set()
            await until(lambda: len(slow.headers) == 2)

            assert slow.headers[-1].heartbeat_timeout_millis == 10_000
            assert broker.registration.registered == [slow.address]


async def test_the_order_of_topics_is_taken_from_the_answer(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv:
        namesrv.order = {"TBW102": "broker-a:8", "unknown": "broker-a:1"}
        async with registering(tmp_path, namesrv.address) as broker:
            assert broker.topics.find("TBW102").order
            assert broker.topics.get("unknown") is None


async def test_name_servers_that_are_down_or_hang_delay_nobody(tmp_path: Path) -> None:
    async with FakeNameServer() as working, FakeNameServer() as hanging:
        hanging.hangs = True
        before = time.monotonic()
        async with registering(tmp_path, DEAD, hanging.address, working.address) as broker:
            started_after = time.monotonic() - before
            assert broker.registration.registered == [working.address]

            broker.topics.put(TopicConfig(topic_name="orders"))
            await until(lambda: working.topics[-1] == ["orders"])
            before = time.monotonic()

        # The moment in which others may answer, and the bound of a stop; the machine may be busy.
        assert started_after < 2.5
        assert time.monotonic() - before < 5
        assert working.unregistered == [IDENTITY.address]
        assert not any(task.get_name().startswith("registration") for task in asyncio.all_tasks())


async def test_that_nobody_can_be_reached_is_said_with_what_to_check(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with registering(tmp_path, DEAD):
        pass

    assert f"none of the NameServers {DEAD} knows this broker yet" in caplog.text
    assert "check namesrvAddr" in caplog.text


async def test_what_goes_on_failing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with registering(tmp_path, DEAD) as broker:
        await broker.pass_time(20)

    assert caplog.text.count("could not be told of this broker") == 1


async def test_the_list_may_change_while_it_runs(tmp_path: Path) -> None:
    async with FakeNameServer() as one, FakeNameServer() as two, registering(tmp_path, one.address) as broker:
        broker.registration.update([two.address])
        await until(lambda: broker.registration.registered == [two.address])
        one.forget()
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: two.topics[-1] == ["orders"])

        assert one.bodies == []


async def test_a_name_server_that_comes_back_is_told_within_a_second(tmp_path: Path) -> None:
    config = NamesrvConfig(
        listen_port=0, kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties"
    )
    async with NameServer(config) as first:
        config.listen_port = int(first.address.rpartition(":")[2])
        starting = registering(tmp_path, first.address)
        broker = await starting.__aenter__()
        address = first.address
    try:
        async with NameServer(config), Client() as client:
            await broker.pass_time(2)
            await until(lambda: broker.registration.registered == [address])
            assert (await client.call(address, h.GetRouteInfoByTopic(topic="TBW102"))).body
    finally:
        await starting.__aexit__(None, None, None)


async def test_a_frozen_broker_leaves_the_route_after_ten_seconds_and_comes_back(tmp_path: Path) -> None:
    clock = ManualClock()
    config = NamesrvConfig(
        listen_port=0, kv_config_path=tmp_path / "kv.json", config_store_path=tmp_path / "namesrv.properties"
    )
    async with (
        NameServer(config, clock=clock) as namesrv,
        registering(tmp_path, namesrv.address) as broker,
        Client() as client,
    ):
        route = h.GetRouteInfoByTopic(topic="TBW102")
        for _ in range(30):
            await broker.pass_time(1)
            await clock.advance(1)
        found = TopicRouteData.decode((await client.call(namesrv.address, route)).body)
        assert found.broker_datas[0].broker_addrs == {0: IDENTITY.address}

        # Its clock stands still: so does a broker that is frozen.
        await clock.advance(16)
        with pytest.raises(TopicNotFound):
            await client.call(namesrv.address, route)

        await broker.pass_time(2)
        await until(lambda: namesrv.table.live)
        assert (await client.call(namesrv.address, route)).body


async def test_pieces_of_a_split_registration_arrive_one_after_the_other(tmp_path: Path) -> None:
    settings = {"enableSplitRegistration": "true", "splitRegistrationSize": "5"}
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, **settings) as broker:
        assert sorted(name for piece in namesrv.topics for name in piece) == sorted(broker.topics.topics)
        assert namesrv.versions[-1] == broker.topics.data_version
