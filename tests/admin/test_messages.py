"""Messages, found and read by an operator."""

from datetime import timedelta

import pytest

from kerolox.admin import AdminClient, MessageNotFound
from kerolox.client import Message, Received
from kerolox.errors import NoPermission, SystemFailure
from kerolox.message.errors import IdError
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.admin.clients import GROUP, QUEUE, TOPIC, consuming, prepared, send


async def test_a_message_is_found_by_either_of_its_ids(admin: AdminClient, cluster: Cluster) -> None:
    first, second = await prepared(admin, cluster, 2)

    by_place = await admin.messages.by_id(second.offset_id)
    by_name = await admin.messages.by_id(second.message_id, TOPIC)

    assert (by_place.body, by_name.body) == (b"1", b"1")
    assert by_place.queue == by_name.queue == QUEUE
    assert [it.body for it in await admin.messages.by_unique_key(TOPIC, first.message_id)] == [b"0"]


async def test_an_id_of_nothing_is_said_to_be_so(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepared(admin, cluster, 1)
    beyond = sent.offset_id[:-6] + "FFFFFF"

    with pytest.raises(MessageNotFound, match=beyond):
        await admin.messages.by_id(beyond)
    with pytest.raises(MessageNotFound, match="no broker of topic 'orders' has a message of id nothing"):
        await admin.messages.by_id("nothing", TOPIC)
    with pytest.raises(IdError):
        await admin.messages.by_id("nothing")


async def test_messages_are_found_by_key_on_all_brokers(admin_of_two: AdminClient, two_brokers: Cluster) -> None:
    await prepared(admin_of_two, two_brokers)
    for name in ("broker-a", "broker-b"):
        queue = MessageQueue(name, 1, TOPIC)
        await send(two_brokers, Message(TOPIC, name.encode(), keys=("k1", "k2")), Message(TOPIC, b"-"), queue=queue)

    found = await admin_of_two.messages.by_key(TOPIC, "k2")

    assert [it.body for it in found] == [b"broker-a", b"broker-b"]
    assert [it.queue.broker_name for it in found] == ["broker-a", "broker-b"]
    assert await admin_of_two.messages.by_key(TOPIC, "k") == []
    assert await admin_of_two.messages.by_key(TOPIC, "k2", end=found[0].stored_at - timedelta(days=1)) == []


async def test_a_message_is_found_at_its_place_in_a_queue(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 2)

    assert (await admin.messages.at(QUEUE, 1)).body == b"1"
    with pytest.raises(MessageNotFound, match="there is no message at 2"):
        await admin.messages.at(QUEUE, 2)


async def test_a_queue_is_read_between_two_places(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 100)

    everything = [it.body async for it in admin.messages.read(QUEUE)]
    some = [it.body async for it in admin.messages.read(QUEUE, begin_offset=40, end_offset=75)]
    even = [it.body async for it in admin.messages.read(QUEUE, begin_offset=-5, end_offset=6, expression="even")]

    assert everything == [b"%d" % number for number in range(100)]
    assert some == everything[40:75]
    assert even == [b"0", b"2", b"4"]
    assert await admin.topics.groups(TOPIC) == []


async def test_a_queue_is_read_between_two_times(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)
    first, last = [(await admin.messages.at(QUEUE, offset)).stored_at for offset in (0, 2)]
    hour = timedelta(hours=1)

    assert len([it async for it in admin.messages.read(QUEUE, begin=first, end=last)]) == 3
    assert [it async for it in admin.messages.read(QUEUE, begin=last + hour)] == []
    assert [it async for it in admin.messages.read(QUEUE, end=first - hour)] == []


async def test_a_topic_is_read_queue_by_queue(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 2)
    await send(cluster, Message(TOPIC, b"of the other"), queue=MessageQueue("broker-a", 1, TOPIC))

    assert [it.body async for it in admin.messages.read_topic(TOPIC)] == [b"0", b"1", b"of the other"]


async def test_what_may_not_be_read_is_refused(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 1)
    await admin.groups.update("TOOLS_CONSUMER", consume_enable=False)

    with pytest.raises(NoPermission):
        await admin.messages.at(QUEUE, 0)


async def test_a_consumer_is_handed_a_message_on_demand(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepared(admin, cluster, 1)
    message = await admin.messages.by_id(sent.offset_id)

    async with consuming(cluster) as (session, consumer):
        result = await admin.messages.consume_directly(GROUP, session.client_id, message)
        with pytest.raises(SystemFailure, match="not online"):
            await admin.messages.consume_directly(GROUP, "somebody else", message)

    assert result.consume_result == "CR_SUCCESS"
    assert [it.body for it in consumer.consumed] == [b"0"]


async def test_a_transaction_is_not_asked_about_where_there_is_none(admin: AdminClient, cluster: Cluster) -> None:
    (sent,) = await prepared(admin, cluster, 1)

    with pytest.raises(SystemFailure):
        await admin.messages.resume_check(TOPIC, sent.offset_id)


async def test_a_pull_says_how_it_ended_and_where_the_queue_ends(admin: AdminClient, cluster: Cluster) -> None:
    await prepared(admin, cluster, 3)

    found = await admin.messages.pull(QUEUE, 1, count=1)
    none = await admin.messages.pull(QUEUE, 0, expression="purple")
    at_end = await admin.messages.pull(QUEUE, 3)
    beyond = await admin.messages.pull(QUEUE, 99)

    assert [message.body for message in found.messages] == [b"1"]
    assert (found.next_offset, found.min_offset, found.max_offset) == (2, 0, 3)
    statuses = [pulled.status for pulled in (found, none, at_end, beyond)]
    assert [status.value for status in statuses] == ["FOUND", "NO_MATCHED_MSG", "NO_NEW_MSG", "OFFSET_ILLEGAL"]


async def test_bodies_are_left_as_they_are_stored_if_that_is_wanted(admin: AdminClient, cluster: Cluster) -> None:
    body = b"wide " * 4000
    await prepared(admin, cluster)
    await send(cluster, Message(TOPIC, body, keys=["wide"]))
    admin.messages.restore = lambda record, queue: Received(record, queue, record.topic, record.body, 0)

    found = [(await admin.messages.by_key(TOPIC, "wide"))[0], await admin.messages.at(QUEUE, 0)]

    assert [len(message.body) < len(body) for message in found] == [True, True]
