"""A slave holds what its master holds, and takes over its readers."""

import asyncio
from pathlib import Path

import pytest

from kerolox.client import PushConsumer
from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.messages import Received
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConfigurationError
from kerolox.message.records.record import decode_all
from kerolox.wire.bodies.offsets import HaRuntimeInfo
from kerolox.wire.headers import replication as r
from kerolox.wire.headers.messages import QueryMessage
from tests.broker.brokers import BrokerFixture, running, sending, settings
from tests.broker.metrics.test_exporter import samples_of
from tests.broker.replication.replicas import SLAVE, name_server, pair, until
from tests.cli.commands.test_broker import BROKER, configured, started

FILES = "0000000000000000*"


def is_equal(one: BrokerFixture, other: BrokerFixture) -> bool:
    return one.broker.store.log.end_offset == other.broker.store.log.end_offset


async def status_of(broker: BrokerFixture) -> HaRuntimeInfo:
    return HaRuntimeInfo.decode((await broker.call(r.GetBrokerHaStatus())).body)


async def test_messages_reach_the_slave_within_a_second(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await until(lambda: slave.broker.replication.has_master)
        # Over the end of a file of 1 MiB.
        for number in range(30):
            await master.send("orders", b"%d " % number * 20_000, number % 4, KEYS=f"k{number}", UNIQ_KEY=f"u{number}")
        await until(lambda: is_equal(master, slave))
        await master.send("orders", b"last", 1)
        await until(lambda: is_equal(master, slave), seconds=1)
        await until(lambda: slave.broker.topics.get("orders") is not None, seconds=1)

        found = decode_all((await slave.pull("orders", 7, 1)).body)
        assert found[-1].body == b"last"
        query = QueryMessage(topic="orders", key="k3", max_num=1, begin_timestamp=0, end_timestamp=2**60)
        assert b"3 3 " in (await slave.call(query)).body
        logs = [broker.broker.settings.store.commit_log_directory for broker in (master, slave)]
        end = master.broker.store.log.end_offset
        one, other = (b"".join(file.read_bytes() for file in sorted(log.glob(FILES)))[:end] for log in logs)
        assert one == other


async def test_a_pull_that_waits_on_a_slave_is_woken_by_a_copied_message(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"one")
        await until(lambda: is_equal(master, slave) and slave.broker.topics.get("orders") is not None)
        waiting = asyncio.create_task(slave.pull("orders", 1, sys_flag=0x6, suspend_timeout_millis=15_000))
        await slave.until_waiting("orders")

        await master.send("orders", b"two")

        async with asyncio.timeout(2):
            assert [message.body for message in decode_all((await waiting).body)] == [b"two"]


async def test_an_empty_slave_gets_everything_and_offsets_follow(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, running(tmp_path / "master", namesrvAddr=server.address) as master:
        for number in range(20):
            await master.send("orders", bytes(200_000) + b"%d" % number)
        await master.send("orders", b"later", DELAY="1")
        master.broker.offsets.commit("readers", "orders", 0, 17)
        async with running(tmp_path / "slave", namesrvAddr=server.address, **SLAVE) as slave:
            await until(lambda: is_equal(master, slave))
            await until(lambda: slave.broker.offsets.get("readers", "orders", 0) == 17, seconds=2)
            assert (await slave.messages("orders"))[0].body == bytes(200_000) + b"0"

            await until(lambda: master.broker.delivery.progress[1] == 1)
            delays = slave.broker.delivery.offsets
            await until(lambda: delays.get(1) == 1, seconds=1)
            await until(lambda: is_equal(master, slave))
            assert (await slave.messages("orders"))[-1].body == b"later"
        assert b"1:1" in (tmp_path / "slave" / "config" / "delayOffset.json").read_bytes()

    # The copy is a store of its own.
    async with running(tmp_path / "slave") as promoted:
        await promoted.send("orders", b"after")
        bodies = [message.body for message in await promoted.messages("orders")]
        assert bodies[-2:] == [b"later", b"after"]
        assert bodies.count(b"later") == 1


async def test_a_slave_follows_a_master_that_was_restarted(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server:
        slave_changes = {"namesrvAddr": server.address, **SLAVE}
        async with running(tmp_path / "slave", **slave_changes) as slave:
            for number in range(2):
                async with running(tmp_path / "master", namesrvAddr=server.address) as master:
                    await master.send("orders", b"%d" % number)
                    await until(lambda: is_equal(master, slave), seconds=8)
        bodies = [b"0", b"1"]
        async with running(tmp_path / "slave") as promoted:
            assert [message.body for message in await promoted.messages("orders")] == bodies


async def test_operators_see_how_far_slaves_are(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"one")
        await until(lambda: is_equal(master, slave))
        end = master.broker.store.log.end_offset
        async with asyncio.timeout(5):
            while (found := await status_of(master)).ha_connection_info[0]["slaveAckOffset"] != end:
                await asyncio.sleep(0.01)

        assert (found.master, found.in_sync_slave_nums, found.master_commit_log_max_offset) == (True, 1, end)
        assert (found.ha_connection_info[0]["diff"], found.ha_connection_info[0]["inSync"]) == (0, True)
        await slave.call(r.ResetMasterFlushOffset(master_flush_offset=5))
        mine = await status_of(slave)
        assert not mine.master
        client = mine.ha_client_runtime_info or {}
        assert client["masterAddr"] == master.broker.parts.addresses.ha_address
        assert (client["maxOffset"], client["masterFlushOffset"], client["activated"]) == (end, 5, True)


async def test_metrics_tell_roles_and_lag(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await master.send("orders", b"one")
        await until(lambda: is_equal(master, slave))
        await until(lambda: slave.broker.replication.metadata_copy.copied_at is not None)

        assert await samples_of(master, "kerolox_broker_role") == {("ASYNC_MASTER",): 1}
        assert await samples_of(slave, "kerolox_broker_role") == {("SLAVE",): 1}
        assert len(await samples_of(master, "kerolox_replica_lag_bytes")) == 1
        assert await samples_of(master, "kerolox_replicas_in_sync") == {(): 1}
        assert await samples_of(slave, "kerolox_replication_connected") == {(): 1}
        assert (await samples_of(slave, "kerolox_metadata_age_seconds"))[()] < 5
        assert await samples_of(slave, "kerolox_replica_lag_bytes") == {}


@pytest.mark.parametrize("count", [1, 40])
async def test_a_sync_master_answers_whether_a_slave_holds_the_messages(tmp_path: Path, count: int) -> None:
    async def codes(master: BrokerFixture) -> set[int]:
        async def send() -> int:
            try:
                await master.send("orders", b"body")
            except AnswerError as error:
                return int(error.code)
            return 0

        return set(await asyncio.gather(*[send() for _ in range(count)]))

    sync = {"brokerRole": "SYNC_MASTER", "slaveTimeout": "300"}
    async with (
        name_server(tmp_path) as server,
        running(tmp_path / "master", namesrvAddr=server.address, **sync) as master,
    ):
        assert await codes(master) == {ResponseCode.SLAVE_NOT_AVAILABLE}
        async with running(tmp_path / "slave", namesrvAddr=server.address, **SLAVE) as slave:
            await until(lambda: is_equal(master, slave))
            async with asyncio.timeout(5):
                while await codes(master) != {0}:
                    await asyncio.sleep(0.01)
            held = master.broker.store.log.end_offset
            assert slave.broker.store.log.end_offset == held
        async with asyncio.timeout(5):
            while await codes(master) != {ResponseCode.SLAVE_NOT_AVAILABLE}:
                await asyncio.sleep(0.01)
        assert await master.messages("orders")


async def test_a_master_listens_for_slaves_on_loopback(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        server = master.broker.replication.server
        assert server is not None
        assert server.address.startswith("127.0.0.1:")
        assert master.broker.parts.addresses.ha_address == server.address


async def test_a_busy_or_malformed_address_is_refused_at_startup(tmp_path: Path) -> None:
    async with running(tmp_path / "one") as master:
        port = master.broker.parts.addresses.ha_address.rpartition(":")[2]
        with pytest.raises(ConfigurationError, match=f"cannot listen for slaves on 127.0.0.1:{port}"):
            async with running(tmp_path / "two", haListenPort=port):
                pass
    assert not (tmp_path / "two").exists()
    with pytest.raises(ConfigurationError, match="nowhere"):
        async with running(tmp_path / "three", haMasterAddress="nowhere", **SLAVE):
            pass


async def test_a_configured_address_of_the_master_is_used_without_name_servers(tmp_path: Path) -> None:
    async with running(tmp_path / "master") as master:
        address = master.broker.parts.addresses.ha_address
        async with running(tmp_path / "slave", haMasterAddress=address, **SLAVE) as slave:
            await master.send("orders", b"one")
            await until(lambda: is_equal(master, slave))
            slave.broker.replication.follow("127.0.0.1:1", "127.0.0.1:2")
            await master.send("orders", b"two")
            await until(lambda: is_equal(master, slave))


def test_the_port_for_slaves_is_the_one_above_the_broker(tmp_path: Path) -> None:
    assert settings(tmp_path, listenPort="10911").ha_port == 10912
    assert settings(tmp_path, listenPort="10911", haListenPort="11000").ha_port == 11000
    assert settings(tmp_path, listenPort="0").ha_port == 0


def test_the_port_for_slaves_is_not_opened_to_others_by_accident_where_tls_is_enforced(tmp_path: Path) -> None:
    public = {"bindAddress": "0.0.0.0", "tls.server.mode": "enforcing"}
    assert settings(tmp_path).ha_host == "127.0.0.1"
    assert settings(tmp_path, bindAddress="0.0.0.0").ha_host == "0.0.0.0"
    assert settings(tmp_path, **public).ha_host == "127.0.0.1"
    assert settings(tmp_path, haListenPort="10912", **public).ha_host == "0.0.0.0"


async def test_a_consumer_finishes_from_the_slave_when_the_master_is_killed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    bodies: set[bytes] = set()
    may_go_on = asyncio.Event()

    async def handle(messages: list[Received]) -> None:
        bodies.update(message.body for message in messages)
        if len(bodies) >= 50:
            await may_go_on.wait()

    async with name_server(tmp_path) as server:
        file = configured(home, namesrvAddr=server.address, brokerName="broker-a", storePathRootDir=str(home / "store"))
        async with (
            started(BROKER, home, "-c", str(file)) as (process, address),
            running(tmp_path / "slave", namesrvAddr=server.address, **SLAVE) as slave,
        ):
            for number in range(300):
                await slave.client.call(address, sending("orders", number % 4), b"%d" % number)
            reader = slave.broker.store.reader
            await until(lambda: sum(reader.max_offset("orders", queue_id) for queue_id in range(4)) == 300)
            await until(lambda: slave.broker.topics.get("orders") is not None)
            async with PushConsumer(
                "readers",
                handle,
                topics="orders",
                namesrv_addr=server.address,
                consume_from=ConsumeFrom.FIRST_OFFSET,
                pull_threshold_for_queue=10,
            ):
                await until(lambda: len(bodies) >= 50)
                process.kill()
                await process.wait()
                may_go_on.set()
                await until(lambda: len(bodies) == 300, seconds=30)
        assert bodies == {b"%d" % number for number in range(300)}
        committed = sum(slave.broker.offsets.table.get("orders@readers", {}).values())
        assert committed == 300
