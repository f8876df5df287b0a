"""What a slave copies besides the log."""

import logging
from pathlib import Path

import pytest

from kerolox.broker.tables.system_topics import TEMPLATE_TOPIC
from kerolox.errors import SystemFailure
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.runtime.clock import SystemClock
from kerolox.wire.bodies.clients import MessageRequestMode
from kerolox.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from kerolox.wire.bodies.offsets import ConsumerOffsetTable
from kerolox.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as b
from kerolox.wire.headers import offsets as o
from kerolox.wire.headers import replication as r
from kerolox.wire.headers.broker import DeleteTopicInBroker, UpdateAndCreateTopic
from kerolox.wire.reply import Reply
from tests.broker.brokers import BrokerFixture, running
from tests.broker.replication.replicas import SLAVE, name_server, pair, until


def create(topic: str, queues: int = 4) -> UpdateAndCreateTopic:
    return UpdateAndCreateTopic(
        topic=topic,
        default_topic=TEMPLATE_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )


def copy_of(slave: BrokerFixture) -> str | None:
    return slave.broker.replication.metadata_copy.master


async def test_tables_reach_the_slave_within_a_second(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await until(lambda: copy_of(slave) == master.broker.address)
        theirs, ours = master.broker, slave.broker
        await master.call(create("orders", 7))
        theirs.groups.put(SubscriptionGroupConfig(group_name="readers", retry_max_times=3))
        theirs.offsets.commit("readers", "orders", 2, 41)
        theirs.request_modes.set(MessageRequestMode(consumer_group="readers", mode="POP", topic="orders"))

        def is_copied() -> bool:
            return (
                ours.topics.get("orders") == theirs.topics.get("orders")
                and ours.groups.groups.get("readers") == theirs.groups.groups["readers"]
                and ours.offsets.get("readers", "orders", 2) == 41
                and ours.request_modes.modes == theirs.request_modes.modes
            )

        await until(is_copied, seconds=1)
        assert ours.topics.data_version == theirs.topics.data_version
        assert ours.groups.data_version == theirs.groups.data_version
        assert ours.offsets.data_version == theirs.offsets.data_version
        theirs.offsets.commit("readers", "orders", 2, 42)
        await until(lambda: ours.offsets.get("readers", "orders", 2) == 42, seconds=1)
        await master.call(DeleteTopicInBroker(topic="orders"))
        await until(lambda: ours.topics.get("orders") is None, seconds=1)
        await until(lambda: ours.offsets.get("readers", "orders", 2) is None, seconds=1)

    async with running(tmp_path / "slave", **SLAVE) as again:
        assert "readers" in again.broker.groups.groups
        assert again.broker.request_modes.modes["orders"]["readers"].mode == "POP"


async def test_a_slave_that_starts_first_finds_its_master_later(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        running(tmp_path / "slave", namesrvAddr=server.address, **SLAVE) as slave,
    ):
        assert copy_of(slave) is None
        async with running(tmp_path / "master", namesrvAddr=server.address) as master:
            await until(lambda: copy_of(slave) == master.broker.address, seconds=4)
            await master.call(create("orders"))
            await until(lambda: slave.broker.topics.get("orders") is not None, seconds=1)
        await until(lambda: copy_of(slave) is None, seconds=4)
        # A master that comes back at another port is found again.
        async with running(tmp_path / "master", namesrvAddr=server.address) as master:
            await until(lambda: copy_of(slave) == master.broker.address, seconds=4)


async def test_an_idle_slave_asks_only_for_changes(tmp_path: Path) -> None:
    async with pair(tmp_path) as (master, slave):
        await until(lambda: copy_of(slave) == master.broker.address)
        copy = slave.broker.replication.metadata_copy
        # The first copy asks for whole tables. It runs beside this test, and topics are not the last of them.
        await until(lambda: copy.copied_at is not None)
        asked: list[int] = []
        call = slave.broker.client.call

        async def note(address: str, request: object, *args: object, **options: object) -> object:
            if address == master.broker.address:
                asked.append(request.code)  # type: ignore[attr-defined]
            return await call(address, request, *args, **options)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(slave.broker.client, "call", note)
            await copy.copy()
            await copy.copy()

        # An idle timer still writes its checkpoint now and then.
        assert set(asked) <= {r.GetMetadataChanges.code, r.GetTimerCheckPoint.code, r.GetTimerMetrics.code}
        assert asked.count(r.GetMetadataChanges.code) >= 2


async def test_large_tables_are_read_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kerolox.broker.replication.metadata_copy._PAGE_SIZE", 7)
    async with pair(tmp_path) as (master, slave):
        for number in range(30):
            master.broker.topics.put(TopicConfig(topic_name=f"t{number}"))
            master.broker.groups.put(SubscriptionGroupConfig(group_name=f"g{number}"))
        await until(lambda: slave.broker.topics.topics == master.broker.topics.topics)
        await until(lambda: slave.broker.groups.groups == master.broker.groups.groups)


async def test_offsets_wait_until_the_log_has_the_messages(tmp_path: Path) -> None:
    async with pair(tmp_path, haMasterAddress="127.0.0.1:1") as (master, slave):
        await until(lambda: copy_of(slave) == master.broker.address)
        await slave.broker.replication.metadata_copy.copy()
        await master.send("orders", b"never copied")
        master.broker.offsets.commit("readers", "orders", 0, 1)
        copy = slave.broker.replication.metadata_copy
        for _ in range(3):
            await copy.copy()

        assert slave.broker.topics.get("orders") is not None
        assert slave.broker.offsets.get("readers", "orders", 0) is None


class JavaMaster:
    """Answers a slave as RocketMQ does; anything may be missing or unreadable."""

    def __init__(self) -> None:
        self.topics = TopicConfigTable(DataVersion(3, 0, 7), {"theirs": TopicConfig(topic_name="theirs")})
        self.offsets: bytes | None = ConsumerOffsetTable(DataVersion(2, 0, 7), {"theirs@g": {0: 5}}).encode()
        groups = {"g": SubscriptionGroupConfig(group_name="g")}
        self.groups = SubscriptionGroupTable(DataVersion(4, 0, 7), {}, groups)
        self.server = Server(Router(self), host="127.0.0.1", port=0, clock=SystemClock())

    @handles(b.GetAllTopicConfig)
    def all_topics(self, request: Incoming[b.GetAllTopicConfig]) -> Reply[b.AllTopicConfig]:
        return Reply(None, self.topics.encode())

    @handles(b.GetAllSubscriptionGroupConfig)
    def all_groups(self, request: Incoming[b.GetAllSubscriptionGroupConfig]) -> Reply[b.AllSubscriptionGroups]:
        return Reply(b.AllSubscriptionGroups(), self.groups.encode())

    @handles(o.GetAllConsumerOffset)
    def all_offsets(self, request: Incoming[o.GetAllConsumerOffset]) -> Reply[Empty]:
        if self.offsets is None:
            raise SystemFailure("no consumer offset in this broker")
        return Reply(None, self.offsets)

    @handles(o.GetAllDelayOffset)
    def all_delays(self, request: Incoming[o.GetAllDelayOffset]) -> Reply[Empty]:
        return Reply(None, b'{"offsetTable":{3:9,4:1}}')

    @handles(r.GetTimerCheckPoint)
    def timer_checkpoint(self, request: Incoming[r.GetTimerCheckPoint]) -> Reply[Empty]:
        return Reply(None, bytes(7) + b"\x09" + bytes(24))


async def test_whole_tables_are_copied_from_a_java_master(tmp_path: Path) -> None:
    java = JavaMaster()
    await java.server.open()
    try:
        async with running(tmp_path, **SLAVE) as slave:
            copy = slave.broker.replication.metadata_copy
            copy.set_master(java.server.address)
            await copy.copy()

            assert slave.broker.topics.get("theirs") == java.topics.topic_config_table["theirs"]
            assert slave.broker.topics.data_version == java.topics.data_version
            assert "g" in slave.broker.groups.groups
            assert slave.broker.offsets.get("g", "theirs", 0) == 5
            assert (slave.broker.delivery.offsets.get(3), slave.broker.delivery.offsets.get(4)) == (9, 1)
            assert slave.broker.timer.checkpoint.read_time == 9
        # Saved with the tables.
        assert b"3:9" in (tmp_path / "config" / "delayOffset.json").read_bytes()
        assert b"theirs" in (tmp_path / "config" / "topics.json").read_bytes()
    finally:
        await java.server.close()


@pytest.mark.parametrize("answer", [None, b"", b"{", b'{"offsetTable":7}', b'{"offsetTable":{"t@g":{"0":"x"}}}'])
async def test_a_failed_step_is_logged_once_and_the_next_still_run(
    tmp_path: Path, answer: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    java = JavaMaster()
    java.offsets = answer
    await java.server.open()
    try:
        async with running(tmp_path, **SLAVE) as slave:
            copy = slave.broker.replication.metadata_copy
            copy.set_master(java.server.address)
            with caplog.at_level(logging.WARNING):
                await copy.copy()
                copy._seen.next_round = 0
                await copy.copy()

            assert "g" in slave.broker.groups.groups
            found = [line for line in caplog.messages if "consumer offsets of master" in line]
            assert len(found) == 1
            java.offsets = ConsumerOffsetTable(DataVersion(2, 0, 7), {"theirs@g": {0: 5}}).encode()
            copy._seen.next_round = 0
            await copy.copy()
            assert slave.broker.offsets.get("g", "theirs", 0) == 5
    finally:
        await java.server.close()


async def test_a_slave_never_copies_from_itself_or_an_unreachable_master(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave:
        copy = slave.broker.replication.metadata_copy
        copy.set_master(slave.broker.address)
        assert copy.master is None
        copy.set_master("127.0.0.1:1")
        await copy.copy()
        copy.set_master(None)
        await copy.copy()


async def test_a_stranger_cannot_name_a_master(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave:
        answer = await slave.call(r.ExchangeBrokerHaInfo(master_ha_address="127.0.0.1:2", master_address="127.0.0.1:1"))

        assert answer.fields == r.HaInfo()
        assert copy_of(slave) is None


async def test_a_master_tells_its_addresses(tmp_path: Path) -> None:
    async with running(tmp_path) as master:
        info = (await master.call(r.ExchangeBrokerHaInfo())).fields

        assert info.master_address == master.broker.address
        assert info.master_ha_address == master.broker.parts.addresses.ha_address


async def test_a_slave_creates_no_retry_topic(tmp_path: Path) -> None:
    async with running(tmp_path, **SLAVE) as slave:
        await slave.heartbeat(consumes={"readers": ["orders"]})

        assert "%RETRY%readers" not in slave.broker.topics.topics


async def test_a_topic_that_was_deleted_and_created_again_starts_at_0_on_the_slave(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as master:
        await master.send("orders", b"old")
        end = master.broker.store.log.end_offset
        await master.call(DeleteTopicInBroker(topic="orders"))
        assert master.broker.store.topic_cleanup.deletions == {"orders": end}
    async with running(tmp_path / "b") as other:
        await other.send("orders", b"old")
        cleanup = other.broker.store.topic_cleanup

        await cleanup.repeat({"orders": end, "unknown": 5})
        assert other.broker.store.queues.get("orders", 0) is None
        assert cleanup.deletions == {"orders": end, "unknown": 5}
        assert await cleanup.repeat({"orders": end}) == 0
        # Newer entries are never deleted.
        await other.send("orders", b"new")
        await cleanup.repeat({"orders": end + 1})
        assert other.broker.store.queues.get("orders", 0) is not None
