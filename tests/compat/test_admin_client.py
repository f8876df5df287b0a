"""Our admin client on Apache's servers, with an Apache consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import TypeVar

import pytest

from kerolox.admin import AdminClient, MessageNotFound, TrackType
from kerolox.admin.statistics import TOPIC_PUT_NUMS
from kerolox.client import Message, Producer, SendResult
from kerolox.client.tracing.trace_format import Pub, SubAfter, SubBefore
from kerolox.errors import AnswerError, ConsumerNotOnline, GroupNotFound, RequestCodeNotSupported, TopicNotFound
from kerolox.remoting.client import Client
from kerolox.wire.bodies.auth import PolicyEntry
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import Perm
from tests.apache import VERSIONS, servers
from tests.apache.processes import Process, java_command, run_java, running, temporary_home
from tests.apache.requirements import require_java
from tests.compat.java_store import until_registered
from tests.compat.table import Part, Table

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

R = TypeVar("R")

# A Java broker warms up slowly on two busy cores.
TIMEOUT_SECONDS = 20.0
DEADLINE_SECONDS = 60.0
_AUTH = "org.apache.rocketmq.auth"
SETTINGS = {
    "traceTopicEnable": "true",
    # 5.3 and later: user metadata is enabled, authentication is not.
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
}


@pytest.fixture(scope="module", params=VERSIONS)
def apache(request: pytest.FixtureRequest) -> Iterator[tuple[str, Process]]:
    """A version, and its NameServer; a broker is registered with it."""
    require_java()
    version = request.param
    with ExitStack() as stack:
        name_server = stack.enter_context(servers.name_server(version, {"orderMessageEnable": "true"}))
        stack.enter_context(servers.broker(version, name_server.address, properties=SETTINGS))
        asyncio.run(_wait_for_broker(name_server.address))
        yield version, name_server


async def _wait_for_broker(namesrv: str) -> None:
    """A broker that answers requests may not be registered with its NameServer yet."""
    async with Client() as client:
        await until_registered(client, namesrv)


@asynccontextmanager
async def admin_client(server: Process) -> AsyncIterator[AdminClient]:
    async with AdminClient(namesrv_addr=server.address, timeout_seconds=TIMEOUT_SECONDS) as admin:
        yield admin


async def eventually(request: Callable[[], Awaitable[R]], condition: Callable[[R], object] = lambda _: True) -> R:
    """Repeat a request until its result satisfies a condition: brokers register changes asynchronously."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                result = await request()
                if condition(result):
                    return result
            except (TopicNotFound, ConsumerNotOnline, MessageNotFound):
                pass
            await asyncio.sleep(0.1)


async def create_topic(admin: AdminClient, server: Process, topic: str, count: int) -> list[SendResult]:
    """Create a topic with two queues, and send `count` messages to the first."""
    await admin.topics.create(topic, read_queues=2, write_queues=2)
    await eventually(lambda: admin.topics.route(topic))
    given = {"namesrv_addr": server.address, "send_timeout_seconds": TIMEOUT_SECONDS}
    async with Producer("senders", **given) as producer:  # type: ignore[arg-type]
        return [
            await producer.send(Message(topic, b"%d" % number, tag="t", keys=(f"k{number}",)), queue=first(topic))
            for number in range(count)
        ]


def first(topic: str) -> MessageQueue:
    return MessageQueue("broker-a", 0, topic)


def second(topic: str) -> MessageQueue:
    return MessageQueue("broker-a", 1, topic)


@asynccontextmanager
async def consuming(version: str, server: Process, topic: str, group: str) -> AsyncIterator[None]:
    """Run a consumer of Apache's."""
    with temporary_home() as home:
        command = java_command(version, home, "Consume.java", server.address, topic, group, "100000", "600")
        with running(command, home):
            yield


async def test_topics_are_created_changed_and_deleted(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "administers topics", version):
        async with admin_client(server) as admin:
            topics = admin.topics
            assert await topics.create("made", read_queues=4, write_queues=3, is_ordered=True) == ["broker-a"]
            route = await eventually(lambda: topics.route("made"))
            assert (len(route.read_queues), len(route.write_queues)) == (4, 3)
            assert await topics.order("made") == {"broker-a": 3}
            assert await topics.clusters("made") == ["DefaultCluster"]
            assert "made" in await topics.names()
            assert "made" in await topics.names(cluster="DefaultCluster")
            assert "TBW102" in await topics.system_names()
            # Brokers of 4.x list only write queues.
            assert len(await topics.status("made")) == (3 if version.startswith("4.") else 4)

            await topics.update("made", perm=Perm.READ)
            config = (await topics.configs("made"))["broker-a"]
            assert (config.perm, config.read_queue_nums, config.order) == (Perm.READ, 4, True)
            await topics.update("made", perm=Perm.READ | Perm.WRITE)
            assert (await topics.all_configs("broker-a"))["made"].perm == Perm.READ | Perm.WRITE

            await topics.delete("made")
            assert await topics.order("made") is None
            assert "made" not in await topics.all_configs("broker-a")
            with pytest.raises(TopicNotFound):
                await topics.configs("made")


async def test_groups_are_created_changed_and_deleted(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "administers groups", version):
        async with admin_client(server) as admin:
            groups = admin.groups
            assert await groups.create(SubscriptionGroupConfig(group_name="made", retry_max_times=3)) == ["broker-a"]
            await groups.update("made", retry_queue_nums=2)
            config = (await groups.configs("made"))["broker-a"]
            assert (config.retry_max_times, config.retry_queue_nums) == (3, 2)
            assert "made" in await groups.names()

            await groups.delete("made", has_offsets_cleaned=True)
            assert "made" not in await groups.names(broker="broker-a")
            with pytest.raises(GroupNotFound):
                await groups.configs("made")


async def test_offsets_of_an_offline_group_are_read_set_and_cloned(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "reads, sets, resets and clones offsets of an offline group", version):
        async with admin_client(server) as admin:
            await create_topic(admin, server, "away", 5)
            queue, other = first("away"), second("away")
            await eventually(lambda: admin.queues.max_offset(queue), lambda offset: offset == 5)
            for group in ("gone", "heirs"):
                await admin.groups.create(group)
            for each, offset in ((queue, 2), (other, 0)):
                await admin.offsets.commit("gone", each, offset)

            assert await admin.offsets.committed("gone", queue) == 2
            progress = await admin.offsets.progress("gone", "away")
            assert (progress.queues[queue].lag, progress.lag) == (3, 3)
            assert "gone" in await admin.topics.groups("away")
            assert (await admin.offsets.broker_progress("broker-a")).total_diff >= 3
            assert len(await admin.offsets.time_spans("gone", "away")) == 2

            await admin.offsets.clone("gone", "heirs", "away")
            assert await admin.offsets.committed("heirs", queue) == 2
            assert (await admin.offsets.skip_accumulated("gone", "away"))[queue] == 5
            assert await admin.offsets.committed("gone", queue) == 5
            assert (await admin.offsets.reset("gone", "away", 0, is_online=False))[queue] == 0
            assert await admin.offsets.committed("gone", queue) == 0
            await admin.offsets.reset_queue("gone", queue, 4)
            assert await admin.offsets.committed("gone", queue) == 4

            stored = await admin.queues.earliest_millis(queue)
            assert stored is not None
            assert await admin.queues.min_offset(queue) == 0
            assert await admin.queues.search(queue, stored) == 0
            assert await admin.queues.search(queue, 2**50) == (4 if version.startswith("4.") else 5)
            entries = await admin.queues.entries(queue, 1, 2)
            assert entries is not None
            assert (len(entries.queue_data), entries.max_queue_index) == (2, 5)


async def test_messages_are_found_and_read(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "finds messages by id, unique key, key and offset, and reads queues", version):
        async with admin_client(server) as admin:
            sent = await create_topic(admin, server, "found", 40)
            queue = first("found")

            assert (await eventually(lambda: admin.messages.by_id(sent[3].offset_id))).body == b"3"
            found = await eventually(lambda: admin.messages.by_id(sent[4].message_id, "found"))
            assert (found.body, found.queue) == (b"4", queue)
            by_key = await eventually(lambda: admin.messages.by_key("found", "k5"), bool)
            assert [message.body for message in by_key] == [b"5"]
            assert (await eventually(lambda: admin.messages.at(queue, 39))).body == b"39"
            bodies = [message.body async for message in admin.messages.read_topic("found")]
            assert bodies == [b"%d" % number for number in range(40)]
            with pytest.raises(MessageNotFound):
                await admin.messages.at(queue, 40)
            with pytest.raises(MessageNotFound):
                await admin.messages.by_id(sent[0].offset_id[:-6] + "FFFFFF")


async def test_the_cluster_and_its_settings_are_read_and_changed(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(
        Part.OUR_CLIENT, "administers brokers, NameServers, write permissions and KV configuration", version
    ):
        async with admin_client(server) as admin:
            await create_topic(admin, server, "counted", 3)
            (broker,) = await admin.cluster.brokers()
            assert (broker.name, broker.is_master, broker.error) == ("broker-a", True, None)
            assert broker.version.startswith("V4" if version.startswith("4.") else "V5")
            assert int(broker.info["msgPutTotalTodayNow"]) >= 3
            assert (await admin.cluster.info()).cluster_addr_table == {"DefaultCluster": ["broker-a"]}
            for clean in ("clean_expired_queues", "clean_unused_topics", "delete_expired_commit_log"):
                assert await getattr(admin.cluster, clean)() == ["broker-a"]

            assert await admin.cluster.wipe_write_permission("broker-a") > 0
            assert (await admin.topics.route("counted")).write_queues == ()
            assert await admin.cluster.add_write_permission("broker-a") > 0
            assert len((await admin.topics.route("counted")).write_queues) == 2

            assert (await admin.configuration.broker("broker-a"))["brokerName"] == "broker-a"
            assert await admin.configuration.update_broker({"fileReservedTime": "71"}) == ["broker-a"]
            assert (await admin.configuration.broker("broker-a"))["fileReservedTime"] == "71"
            (settings,) = (await admin.configuration.name_servers()).values()
            assert settings["orderMessageEnable"] == "true"
            await admin.configuration.update_name_servers({"clusterTest": "false"})
            await admin.configuration.set_kv("colors", "sky", "blue")
            assert await admin.configuration.kv("colors", "sky") == "blue"
            assert await admin.configuration.kv_table("colors") == {"sky": "blue"}
            await admin.configuration.delete_kv("colors", "sky")
            assert await admin.configuration.kv("colors", "sky") is None

            assert await admin.statistics.of_broker("broker-a", TOPIC_PUT_NUMS, "counted") is not None
            (line,) = await admin.statistics.all(topic="counted")
            assert (line.group, line.lag) == (None, None)
            assert any(line.topic == "counted" for line in await admin.statistics.all())


async def test_an_apache_consumer_is_inspected_and_controlled(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    topic, group = "watched", "watchers"
    with table.row(
        Part.OUR_CLIENT, "inspects a Java consumer, resets its offsets, and lets it consume a message directly", version
    ):
        async with admin_client(server) as admin, consuming(version, server, topic, group):
            sent = await create_topic(admin, server, topic, 10)
            (client,) = (await eventually(lambda: admin.connections.consumers(group))).connection_set
            assert client.language == "JAVA"

            progress = await eventually(
                lambda: admin.offsets.progress(group, topic, has_clients=True),
                lambda found: first(topic) in found.queues and found.queues[first(topic)].consumer_offset == 10,
            )
            assert progress.queues[first(topic)].client_id == client.client_id
            info = await admin.connections.running_info(group, client.client_id, has_stacks=True)
            assert set(info.mq_table) >= {first(topic), second(topic)}
            assert info.jstack
            offsets = await admin.connections.offsets(group, topic)
            assert offsets[client.client_id][first(topic)] == 10

            message = await admin.messages.by_id(sent[0].offset_id)
            assert (await admin.messages.consume_directly(group, client.client_id, message)).consume_result
            (track,) = await admin.tracks.of_message(message)
            assert (track.group, track.type) == (group, TrackType.CONSUMED)
            assert (await admin.statistics.all(topic=topic))[0].lag == 0

            # A 4.x broker does not reset a group without an offset for each queue.
            await admin.offsets.commit(group, second(topic), 0)
            before = await delivered_count(admin)
            assert (await admin.offsets.reset(group, topic, 0, is_online=True))[first(topic)] == 0
            # The ten messages are delivered again.
            await eventually(lambda: delivered_count(admin), lambda count: count >= before + 10)


async def delivered_count(admin: AdminClient) -> int:
    return int((await admin.cluster.runtime_info("broker-a"))["msgGetTotalTodayNow"])


async def test_producer_connections_are_listed(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "lists producer connections", version):
        async with admin_client(server) as admin:
            await create_topic(admin, server, "made-by", 1)
            given = {"namesrv_addr": server.address, "send_timeout_seconds": TIMEOUT_SECONDS}
            async with Producer("makers", **given) as producer:  # type: ignore[arg-type]
                await producer.send(Message("made-by", b"1"))
                found = await eventually(lambda: admin.connections.producers("makers", "made-by"), bool)
                all_producers = await admin.connections.all_producers("broker-a")
            assert found[0].client_id == producer.options.client_id
            assert "makers" in all_producers
            assert await admin.connections.producers("nobody", "made-by") == []


async def test_brokers_refuse_requests_that_their_release_does_not_support(
    apache: tuple[str, Process], table: Table
) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "gets an error for requests that a broker does not support", version):
        async with admin_client(server) as admin:
            await create_topic(admin, server, "new", 0)
            await admin.groups.create("modern")
            await admin.offsets.commit("modern", first("new"), 0)
            if version.startswith("4."):
                with pytest.raises(AnswerError, match="not supported"):
                    await admin.groups.topics("modern")
            else:
                assert await admin.groups.topics("modern") == ["new"]
                assert (await admin.cluster.ha_status("broker-a")).master
                assert not await admin.groups.set_readable("modern", "new", is_readable=False, broker="broker-a")
            assert await admin.cluster.wipe_write_permission("nobody") == 0


async def test_traces_of_apaches_clients_are_read(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "reads the traces of Java's producer and consumer", version):
        async with admin_client(server) as admin:
            await create_topic(admin, server, "traced", 0)
            completed = await asyncio.to_thread(run_java, version, "Traced.java", server.address, "traced", "tracers")
            (line,) = completed.stdout.splitlines()
            message_id = line.removeprefix("id ")
            records = await eventually(lambda: admin.traces.of_message(message_id), lambda found: len(found) == 3)
            sent, before, after = records
            assert isinstance(sent, Pub)
            assert (sent.topic, sent.group, sent.is_success) == ("traced", "traced_producer", True)
            assert isinstance(before, SubBefore)
            assert isinstance(after, SubAfter)
            assert (before.group, before.request_id, after.is_success) == ("tracers", after.request_id, True)
            assert sent in await admin.traces.by_key("traced-key")


async def test_users_and_acls_are_administered(apache: tuple[str, Process], table: Table) -> None:
    version, server = apache
    with table.row(Part.OUR_CLIENT, "administers users and policies", version) as row:
        async with admin_client(server) as admin:
            if version.startswith("4."):
                row.result = "not before 5.3: refused"
                with pytest.raises(RequestCodeNotSupported):
                    await admin.users.create("alice", "secret-1")
                with pytest.raises(RequestCodeNotSupported):
                    await admin.policies.matching()
                return
            assert await admin.users.create("alice", "secret-1") == ["broker-a"]
            await admin.users.update("alice", is_enabled=False)
            alice = await admin.users.find("alice")
            assert alice is not None
            assert (alice.user_type, alice.user_status) == ("Normal", "disable")
            assert [user.username for user in await admin.users.matching("ali")] == ["alice"]
            assert await admin.users.find("bob") is None

            entry = PolicyEntry(resource="Topic:orders", actions=["Pub", "Sub"], decision="Allow")
            assert await admin.policies.create("User:alice", [entry]) == ["broker-a"]
            other = PolicyEntry(resource="Group:*", actions=["Sub"], decision="Deny", source_ips=["10.0.0.0/8"])
            await admin.policies.update("User:alice", [other])
            acl = await admin.policies.find("User:alice")
            assert acl is not None
            resources = {entry.resource: entry.decision for policy in acl.policies for entry in policy.entries}
            assert resources == {"Topic:orders": "Allow", "Group:*": "Deny"}
            assert [acl.subject for acl in await admin.policies.matching("alice")] == ["User:alice"]

            await admin.policies.delete("User:alice", resource="Group:*")
            acl = await admin.policies.find("User:alice")
            assert acl is not None
            assert [entry.resource for policy in acl.policies for entry in policy.entries] == ["Topic:orders"]
            await admin.users.delete("alice")
            assert await admin.users.matching() == []
            assert await admin.policies.matching() == []
