"""Request and reply."""

import asyncio

import pytest

from kerolox.client.errors import ClientError, RequestTimeout, SendFailed
from kerolox.client.messages import Message, Received, received
from kerolox.client.producer.producer import Producer
from kerolox.message import property_names
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from tests.client.producer.producing import producing, stored
from tests.client.sessions import until


async def next_request(cluster: Cluster, topic: str = "questions") -> Received:
    """Return the first message of a topic as a consumer would receive it."""
    await until(lambda: any(stored(broker, topic) for broker in cluster.brokers))
    record = next(record for broker in cluster.brokers for record in stored(broker, topic))
    return received(record, MessageQueue("", record.queue_id, topic))


@pytest.mark.parametrize("size", [10, 10_000])
async def test_a_request_returns_its_reply(two_brokers: Cluster, size: int) -> None:
    """The reply may go to either broker: the requester is registered with both."""
    async with producing(two_brokers) as asking, producing(two_brokers, "answering") as answering:
        waiting = asyncio.create_task(asking.request(Message("questions", b"2 + 2"), timeout_seconds=20))
        request = await next_request(two_brokers)

        await answering.reply(request, b"4" * size)

        reply = await waiting
        assert reply.body == b"4" * size
        assert reply.properties[property_names.CORRELATION_ID] == request.properties[property_names.CORRELATION_ID]


async def test_concurrent_requests_each_get_their_own_reply(cluster: Cluster) -> None:
    async def answer(answering: Producer, count: int) -> None:
        answered: set[str] = set()
        async with asyncio.timeout(20):
            while len(answered) < count:
                for record in stored(cluster.brokers[0], "questions"):
                    if record.message_id not in answered:
                        answered.add(record.message_id)
                        request = received(record, MessageQueue("", record.queue_id, "questions"))
                        await answering.reply(request, b"re: " + request.body)
                await asyncio.sleep(0.001)

    async with producing(cluster) as asking, producing(cluster, "answering") as answering:
        replying = asyncio.create_task(answer(answering, 20))
        requests = (Message("questions", b"%d" % number) for number in range(20))
        replies = await asyncio.gather(*(asking.request(it, timeout_seconds=20) for it in requests))
        await replying

    assert [reply.body for reply in replies] == [b"re: %d" % number for number in range(20)]


async def test_a_request_without_a_reply_times_out(cluster: Cluster) -> None:
    async with producing(cluster) as asking:
        with pytest.raises(RequestTimeout, match=r"of topic 'questions' within 0.2 s"):
            await asking.request(Message("questions", b"anybody?"), timeout_seconds=0.2)

        assert not asking._session.pending_replies


async def test_a_reply_to_a_closed_requester_fails(cluster: Cluster) -> None:
    async with producing(cluster) as asking:
        with pytest.raises(RequestTimeout):
            await asking.request(Message("questions", b"anybody?"), timeout_seconds=0.3)
    request = await next_request(cluster)

    async with producing(cluster, "answering") as answering:
        with pytest.raises(SendFailed, match="channel of"):
            await answering.reply(request, b"too late")


async def test_replying_to_an_ordinary_message_raises(cluster: Cluster) -> None:
    async with producing(cluster) as producer:
        await producer.send(Message("questions", b"a statement"))
        with pytest.raises(ClientError, match="CORRELATION_ID"):
            await producer.reply(await next_request(cluster), b"why?")
