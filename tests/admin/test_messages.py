"""Messages, their tracks and their traces."""

from datetime import timedelta
from pathlib import Path

import pytest

from kerolox.admin import AdminClient, MessageNotFound, Track, TrackType, UnknownCluster
from kerolox.client import Message, Producer, Received
from kerolox.client.tracing.trace_format import Pub, Record, SubAfter, SubBefore, messages_of
from kerolox.errors import NoPermission, SystemFailure
from kerolox.message.errors import IdError
from kerolox.testing import Cluster
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from tests.admin.clients import GROUP, QUEUE, TOPIC, AssigningConsumer, consuming, numbered, prepare, send
from tests.client.sessions import options


async def test_a_message_is_found_by_either_of_its_ids(admin: AdminClient, cluster: Cluster) -> None:
    first, second = await prepare(admin, cluster, 2)

    by_place = await admin.messages.by_id(second.offset_id)
    by_name = await admin.messages.by_id(second.message_id, TOPIC)

    assert (by_place.body, by_name.body) == (b"1", b"1")
    assert by_place.queue == by_name.queue == QUEUE
    assert [it.body for it in await admin.messages.by_unique_key(TOPIC, first.message_id)] == [b"0"]


async def test_an_unknown_message_id_raises_message_not_found(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepare(admin, cluster, 1)
    beyond = sent.offset_id[:-6] + "FFFFFF"

    with pytest.raises(MessageNotFound, match=beyond):
        await admin.messages.by_id(beyond)
    with pytest.raises(MessageNotFound, match="no broker of topic 'orders' has a message of id nothing"):
        await admin.messages.by_id("nothing", TOPIC)
    with pytest.raises(IdError):
        await admin.messages.by_id("nothing")


async def test_messages_are_found_by_key_on_all_brokers(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    await prepare(admin_of_two, two_brokers)
    for name in ("broker-a", "broker-b"):
        queue = MessageQueue(name, 1, TOPIC)
        await send(two_brokers, Message(TOPIC, name.encode(), keys=("k1", "k2")), Message(TOPIC, b"-"), queue=queue)

    found = await admin_of_two.messages.by_key(TOPIC, "k2")

    assert [it.body for it in found] == [b"broker-a", b"broker-b"]
    assert [it.queue.broker_name for it in found] == ["broker-a", "broker-b"]
    assert await admin_of_two.messages.by_key(TOPIC, "k") == []
    assert await admin_of_two.messages.by_key(TOPIC, "k2", end=found[0].stored_at - timedelta(days=1)) == []


async def test_messages_are_found_by_tag_on_all_brokers(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    await prepare(admin_of_two, two_brokers)
    for name in ("broker-a", "broker-b"):
        queue = MessageQueue(name, 1, TOPIC)
        red, key = Message(TOPIC, name.encode(), tag="red"), Message(TOPIC, b"-", keys=["red"])
        await send(two_brokers, red, key, queue=queue)

    assert [it.body for it in await admin_of_two.messages.by_tag(TOPIC, "red")] == [b"broker-a", b"broker-b"]
    assert await admin_of_two.messages.by_tag(TOPIC, "blue") == []


async def test_by_key_queries_only_brokers_of_the_given_cluster(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    await send(cluster, Message(TOPIC, b"body", keys=["k"]))

    assert [it.body for it in await admin.messages.by_key(TOPIC, "k", cluster="DefaultCluster")] == [b"body"]
    with pytest.raises(UnknownCluster, match="topic 'orders' is not in cluster 'elsewhere'"):
        await admin.messages.by_key(TOPIC, "k", cluster="elsewhere")


async def test_a_message_is_found_by_its_queue_offset(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 2)

    assert (await admin.messages.at(QUEUE, 1)).body == b"1"
    with pytest.raises(MessageNotFound, match="there is no message at offset 2"):
        await admin.messages.at(QUEUE, 2)


async def test_a_queue_is_read_between_two_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 100)

    everything = [it.body async for it in admin.messages.read(QUEUE)]
    some = [it.body async for it in admin.messages.read(QUEUE, begin_offset=40, end_offset=75)]
    even = [it.body async for it in admin.messages.read(QUEUE, begin_offset=-5, end_offset=6, expression="even")]

    assert everything == [b"%d" % number for number in range(100)]
    assert some == everything[40:75]
    assert even == [b"0", b"2", b"4"]
    assert await admin.topics.groups(TOPIC) == []


async def test_a_queue_is_read_between_two_times(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)
    first, last = [(await admin.messages.at(QUEUE, offset)).stored_at for offset in (0, 2)]
    hour = timedelta(hours=1)

    assert len([it async for it in admin.messages.read(QUEUE, begin=first, end=last)]) == 3
    assert [it async for it in admin.messages.read(QUEUE, begin=last + hour)] == []
    assert [it async for it in admin.messages.read(QUEUE, end=first - hour)] == []


async def test_a_topic_is_read_queue_by_queue(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 2)
    await send(cluster, Message(TOPIC, b"of the other"), queue=MessageQueue("broker-a", 1, TOPIC))

    assert [it.body async for it in admin.messages.read_topic(TOPIC)] == [b"0", b"1", b"of the other"]


async def test_reading_a_forbidden_topic_is_refused(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 1)
    await admin.groups.update("TOOLS_CONSUMER", consume_enable=False)

    with pytest.raises(NoPermission):
        await admin.messages.at(QUEUE, 0)


async def test_consume_directly_calls_a_consumer(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepare(admin, cluster, 1)
    message = await admin.messages.by_id(sent.offset_id)

    async with consuming(cluster) as (session, consumer):
        result = await admin.messages.consume_directly(GROUP, session.client_id, message)
        with pytest.raises(SystemFailure, match="not online"):
            await admin.messages.consume_directly(GROUP, "somebody else", message)

    assert result.consume_result == "CR_SUCCESS"
    assert [it.body for it in consumer.consumed] == [b"0"]


async def test_resume_check_without_a_transaction_is_refused(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepare(admin, cluster, 1)

    with pytest.raises(SystemFailure):
        await admin.messages.resume_check(TOPIC, sent.offset_id)


async def test_a_pull_returns_its_status_and_the_queue_offsets(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster, 3)

    found = await admin.messages.pull(QUEUE, 1, count=1)
    none = await admin.messages.pull(QUEUE, 0, expression="purple")
    at_end = await admin.messages.pull(QUEUE, 3)
    beyond = await admin.messages.pull(QUEUE, 99)

    assert [message.body for message in found.messages] == [b"1"]
    assert (found.next_offset, found.min_offset, found.max_offset) == (2, 0, 3)
    statuses = [pulled.status for pulled in (found, none, at_end, beyond)]
    assert [status.value for status in statuses] == ["FOUND", "NO_MATCHED_MSG", "NO_NEW_MSG", "OFFSET_ILLEGAL"]


async def test_bodies_can_be_left_compressed(admin: AdminClient, cluster: Cluster) -> None:
    body = b"wide " * 4000
    await prepare(admin, cluster)
    await send(cluster, Message(TOPIC, body, keys=["wide"]))
    admin.messages.restore = lambda record, queue: Received(record, queue, record.topic, record.body, 0)

    found = [(await admin.messages.by_key(TOPIC, "wide"))[0], await admin.messages.at(QUEUE, 0)]

    assert [len(message.body) < len(body) for message in found] == [True, True]


class OddOnly(AssigningConsumer):
    def subscriptions(self) -> list[SubscriptionData]:
        return [SubscriptionData(topic=TOPIC, sub_string="odd", tags_set=["odd"], sub_version=1)]


class Puller(AssigningConsumer):
    consume_type = "CONSUME_ACTIVELY"


class Broadcast(AssigningConsumer):
    message_model = "BROADCASTING"


async def test_the_track_of_a_message_is_returned_by_group(admin: AdminClient, cluster: Cluster) -> None:
    await prepare(admin, cluster)
    sent = await send(cluster, *numbered(1))
    message = await admin.messages.by_id(sent[0].offset_id)
    for group, offset in ((GROUP, 1), ("late", 0), ("odd", 1), ("away", 1)):
        await admin.groups.create(group)
        await admin.offsets.commit(group, QUEUE, offset)

    async with (
        consuming(cluster),
        consuming(cluster, group="late"),
        consuming(cluster, group="odd", consumer=OddOnly(TOPIC)),
        consuming(cluster, group="pull", consumer=Puller(TOPIC)),
        consuming(cluster, group="all", consumer=Broadcast(TOPIC)),
        consuming(cluster, group="new"),
    ):
        tracks: list[Track] = await admin.tracks.of_message(message)

    assert {track.group: track.type for track in tracks} == {
        GROUP: TrackType.CONSUMED,
        "late": TrackType.NOT_CONSUME_YET,
        "odd": TrackType.CONSUMED_BUT_FILTERED,
        "pull": TrackType.PULL,
        "all": TrackType.CONSUME_BROADCASTING,
        "new": TrackType.NOT_CONSUME_YET,
        "away": TrackType.NOT_ONLINE,
    }


SENT = Pub(timestamp=1, group="senders", topic="orders", message_id="A1", keys="k1 k2", store_host="127.0.0.1:1")
HANDED = SubBefore(timestamp=2, group="shop", request_id="R", message_id="A1", keys="k1 k2")
DONE = SubAfter(timestamp=3, group="shop", request_id="R", message_id="A1", keys="k1 k2", cost_millis=1)
OTHER = Pub(timestamp=1, group="senders", topic="orders", message_id="A2", keys="k2")


async def test_traces_are_found_by_message_id_and_key(tmp_path: Path) -> None:
    async with (
        Cluster(tmp_path, settings={"traceTopicEnable": "true"}) as cluster,
        AdminClient(namesrv_addr=cluster.namesrv_addr) as admin,
    ):
        async with Producer("tracers", options=options(cluster)) as producer:
            batches: list[list[Record]] = [[HANDED, DONE], [SENT, OTHER]]
            for records in batches:
                for message in messages_of(records):
                    await producer.send(message)

        assert await admin.traces.of_message("A1") == [SENT, HANDED, DONE]
        assert await admin.traces.of_message("A3") == []
        assert await admin.traces.by_key("k2") == [SENT, OTHER, HANDED, DONE]
