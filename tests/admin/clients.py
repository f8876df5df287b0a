"""Producers and consumers for tests of the admin client."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kerolox.admin import AdminClient
from kerolox.client import Message, Producer, SendResult
from kerolox.client.session.session import Session
from kerolox.testing import Cluster
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo
from tests.client.sessions import RecordingConsumer, options

TOPIC, GROUP = "orders", "shop"
QUEUE = MessageQueue("broker-a", 0, TOPIC)


async def send(cluster: Cluster, *messages: Message, queue: MessageQueue = QUEUE) -> list[SendResult]:
    """Send to one queue, in order."""
    async with Producer("senders", options=options(cluster)) as producer:
        return [await producer.send(message, queue=queue) for message in messages]


def numbered(count: int, topic: str = TOPIC) -> Sequence[Message]:
    return [Message(topic, b"%d" % number, tag="even" if number % 2 == 0 else "odd") for number in range(count)]


class AssigningConsumer(RecordingConsumer):
    """A consumer whose running info contains its queues."""

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        return ConsumerRunningInfo(
            jstack="where it stands" if has_stacks else None,
            mq_table={queue: ProcessQueueInfo(commit_offset=offset) for queue, offset in self.offsets.items()},
            properties={"PROP_CONSUME_TYPE": self.consume_type},
        )


@asynccontextmanager
async def consuming(
    cluster: Cluster, *topics: str, group: str = GROUP, consumer: AssigningConsumer | None = None
) -> AsyncIterator[tuple[Session, AssigningConsumer]]:
    """A consumer that is registered with the brokers inside the `async with`."""
    member = consumer or AssigningConsumer(*(topics or (TOPIC,)))
    session = await Session.acquire(options(cluster))
    try:
        for topic in member.topics:
            await session.routes.get(topic)
        session.add_consumer(group, member)
        await session.heartbeat()
        yield session, member
        await session.remove_consumer(group)
    finally:
        await session.release()


async def prepare(admin: AdminClient, cluster: Cluster, count: int = 0, *, queues: int = 2) -> list[SendResult]:
    """Create the topic and the group, and send `count` messages to the first queue."""
    await admin.topics.create(TOPIC, read_queues=queues, write_queues=queues)
    await admin.groups.create(GROUP)
    return await send(cluster, *numbered(count))
