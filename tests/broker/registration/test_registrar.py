"""Registration on a clock that the test controls, with NameServers that behave in different ways."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerolox.broker.registration import registrar
from kerolox.errors import TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.runtime.clock import ManualClock
from kerolox.wire.bodies.routes import QueueData, TopicRouteData
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.headers import namesrv as h
from tests.broker.name_servers import IDENTITY, FakeNameServer, registering, until

DEAD = "127.0.0.1:1"


async def test_a_broker_registers_with_all_name_servers_on_open_and_unregisters_on_close(tmp_path: Path) -> None:
    async with FakeNameServer() as one, FakeNameServer() as two:
        async with registering(tmp_path, one.address, two.address) as broker:
            assert broker.registration.registered == [one.address, two.address]
            assert one.topics == two.topics == [sorted(broker.topics.topics)]
            assert one.headers[0].heartbeat_timeout_millis == 10_000

        assert one.unregistered == two.unregistered == [IDENTITY.address]


async def test_registration_is_repeated_every_period(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        await broker.pass_time(29)
        assert len(namesrv.bodies) == 1

        await broker.pass_time(1)
        await until(lambda: len(namesrv.bodies) == 2)

        await broker.pass_time(30)
        await until(lambda: len(namesrv.bodies) == 3)


async def test_without_force_register_only_a_changed_version_is_registered(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, forceRegister="false") as broker:
        await broker.pass_time(30)
        await until(lambda: namesrv.questions == 1)
        assert len(namesrv.bodies) == 1

        broker.topics.bump_version()
        await broker.pass_time(30)
        await until(lambda: len(namesrv.bodies) == 2)
        assert namesrv.versions[-1] == broker.topics.data_version


async def test_a_new_topic_is_registered_at_once_together_with_all_others(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, forceRegister="false") as broker:
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: len(namesrv.bodies) == 2)

        assert "orders" in namesrv.topics[-1]
        assert namesrv.topics[-1] == sorted(broker.topics.topics)
        assert namesrv.versions[-1] == broker.topics.data_version


@pytest.mark.parametrize("single", ["true", "false"])
async def test_wait_until_registered_returns_after_the_name_server_has_the_topic(tmp_path: Path, single: str) -> None:
    async with (
        FakeNameServer() as namesrv,
        registering(tmp_path, namesrv.address, enableSingleTopicRegister=single) as broker,
    ):
        for number in range(20):
            name = f"orders-{number}"
            broker.topics.put(TopicConfig(topic_name=name))
            await broker.registration.wait_until_registered()

            assert name in namesrv.single or name in namesrv.topics[-1]


async def test_wait_until_registered_does_not_wait_long_for_a_name_server_that_hangs_or_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "_TOPIC_SECONDS", 0.2)
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, DEAD) as broker:
        namesrv.hangs = True
        broker.topics.put(TopicConfig(topic_name="orders"))
        start = time.monotonic()
        await broker.registration.wait_until_registered()
        waited = time.monotonic() - start

    assert 0.1 < waited < 2


async def test_topics_created_in_quick_succession_share_a_large_registration(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        for number in range(1_001):
            broker.topics.put(TopicConfig(topic_name=f"topic-{number}"))
        await until(lambda: len(namesrv.bodies) == 2)
        for name in ("one", "two", "three"):
            broker.topics.put(TopicConfig(topic_name=name))
            await asyncio.sleep(0.01)
        assert len(namesrv.bodies) == 2

        await broker.pass_time(1)

        await until(lambda: len(namesrv.bodies) == 3)
        assert {"one", "two", "three"} < set(namesrv.topics[-1])


async def test_a_slow_machine_does_not_delay_the_registration_of_a_new_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address) as broker:
        encode = broker.registration.requests.everything

        def slowly() -> Iterator[bytes]:
            start = time.thread_time()
            while time.thread_time() < start + 0.05:
                pass
            yield from encode()

        monkeypatch.setattr(broker.registration.requests, "everything", slowly)
        for count, name in enumerate(("one", "two", "three"), start=2):
            broker.topics.put(TopicConfig(topic_name=name))
            await until(lambda count=count: len(namesrv.bodies) == count)  # type: ignore[misc]


async def test_a_new_topic_is_registered_alone_if_that_is_enabled(tmp_path: Path) -> None:
    settings = {"enableSingleTopicRegister": "true", "brokerPermission": "4"}
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, **settings) as broker:
        broker.topics.put(TopicConfig(topic_name="orders", read_queue_nums=3, write_queue_nums=2, topic_sys_flag=1))
        await until(lambda: namesrv.single)

        assert namesrv.single == {"orders": QueueData("broker-a", 3, 2, 4, 1)}
        assert len(namesrv.bodies) == 1

        await broker.pass_time(30)
        await until(lambda: len(namesrv.bodies) == 2)
        assert namesrv.topics[-1] == sorted(broker.topics.topics)


async def test_name_servers_of_4x_are_never_sent_single_topics(tmp_path: Path) -> None:
    settings = {"enableSingleTopicRegister": "true"}
    async with FakeNameServer() as namesrv:
        namesrv.knows_heartbeats = False
        async with registering(tmp_path, namesrv.address, **settings) as broker:
            broker.topics.put(TopicConfig(topic_name="orders"))
            await until(lambda: len(namesrv.bodies) == 2)

            assert (namesrv.single, namesrv.topics[-1]) == ({}, sorted(broker.topics.topics))


@pytest.mark.parametrize("settings", [{}, {"enableSingleTopicRegister": "true"}])
async def test_registering_a_new_topic_does_not_drop_others(tmp_path: Path, settings: dict[str, str]) -> None:
    config = NamesrvConfig(listen_port=0, kv_config_path=tmp_path / "kv", config_store_path=tmp_path / "namesrv")
    config.delete_topic_with_broker_registration = True
    async with NameServer(config) as namesrv, registering(tmp_path / "b", namesrv.address, **settings) as broker:
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: "orders" in namesrv.table.topics)

        assert namesrv.table.topics.keys() == broker.topics.topics.keys()


async def test_all_topics_are_registered_if_a_name_server_rejects_a_single_one(tmp_path: Path) -> None:
    """The NameServer may have restarted without its routes."""
    settings = {"enableSingleTopicRegister": "true"}
    async with FakeNameServer() as namesrv, registering(tmp_path, namesrv.address, **settings) as broker:
        namesrv.refuses = True
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: len(namesrv.bodies) == 2)
        namesrv.refuses = False
        await broker.pass_time(6)
        await until(lambda: broker.registration.registered)

        assert list(namesrv.single) == ["orders"]
        assert namesrv.topics[1] == namesrv.topics[2] == sorted(broker.topics.topics)


async def test_light_heartbeats_are_sent_only_to_name_servers_that_support_them(tmp_path: Path) -> None:
    async with FakeNameServer() as new, FakeNameServer() as old:
        old.knows_heartbeats = False
        async with registering(tmp_path, new.address, old.address) as broker:
            await broker.pass_time(10)
            await until(lambda: new.heartbeats == 11)

            # The probe, once per NameServer.
            assert old.heartbeats == 1
            assert old.headers[0].heartbeat_timeout_millis is None


async def test_heartbeats_are_announced_late_if_the_probe_is_answered_late(tmp_path: Path) -> None:
    async with FakeNameServer() as slow:
        slow.may_answer_heartbeats.clear()
        async with registering(tmp_path, slow.address) as broker:
            assert [header.heartbeat_timeout_millis for header in slow.headers] == [None]

            slow.may_answer_heartbeats.set()
            await until(lambda: len(slow.headers) == 2)

            assert slow.headers[-1].heartbeat_timeout_millis == 10_000
            assert broker.registration.registered == [slow.address]


async def test_the_order_configuration_in_the_response_marks_topics_as_ordered(tmp_path: Path) -> None:
    async with FakeNameServer() as namesrv:
        namesrv.order = {"TBW102": "broker-a:8", "unknown": "broker-a:1"}
        async with registering(tmp_path, namesrv.address) as broker:
            assert broker.topics.find("TBW102").order
            assert broker.topics.get("unknown") is None


async def test_a_name_server_that_is_down_or_hangs_does_not_delay_the_others(tmp_path: Path) -> None:
    async with FakeNameServer() as working, FakeNameServer() as hanging:
        hanging.hangs = True
        before = time.monotonic()
        async with registering(tmp_path, DEAD, hanging.address, working.address) as broker:
            started_after = time.monotonic() - before
            assert broker.registration.registered == [working.address]

            broker.topics.put(TopicConfig(topic_name="orders"))
            await until(lambda: "orders" in working.topics[-1])
            before = time.monotonic()

        # Generous limits, because the machine may be busy: the start waits 0.5 s for others, the stop 3 s.
        assert started_after < 2.5
        assert time.monotonic() - before < 5
        assert working.unregistered == [IDENTITY.address]
        assert not any(task.get_name().startswith("registration") for task in asyncio.all_tasks())


async def test_a_warning_says_what_to_check_if_no_name_server_can_be_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with registering(tmp_path, DEAD):
        pass

    assert f"could not register with any of the NameServers {DEAD}" in caplog.text
    assert "check namesrvAddr" in caplog.text


async def test_repeated_failures_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with registering(tmp_path, DEAD) as broker:
        await broker.pass_time(20)

    assert caplog.text.count("could not register with NameServer") == 1


async def test_the_list_of_name_servers_can_change_at_runtime(tmp_path: Path) -> None:
    async with FakeNameServer() as one, FakeNameServer() as two, registering(tmp_path, one.address) as broker:
        broker.registration.update([two.address])
        await until(lambda: broker.registration.registered == [two.address])
        one.forget()
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: "orders" in two.topics[-1])

        assert one.bodies == []


async def test_a_restarted_name_server_gets_a_registration_within_seconds(tmp_path: Path) -> None:
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


async def test_a_hanging_broker_is_removed_from_routes_and_returns(tmp_path: Path) -> None:
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

        # The clock of the broker stands still, as if it hangs.
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

        # Split registrations are never complete, so a changed topic is registered alone.
        broker.topics.put(TopicConfig(topic_name="orders"))
        await until(lambda: namesrv.topics[-1] == ["orders"])
