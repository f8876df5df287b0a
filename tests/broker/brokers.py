"""A broker on real sockets and files, and a plain client."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kerolox.broker import Broker, Settings
from kerolox.message import properties
from kerolox.message.message import Message
from kerolox.message.records.record import decode_all
from kerolox.remoting.client import Client
from kerolox.remoting.policy import Policy
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.clients import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from kerolox.wire.command import JSON, encode
from kerolox.wire.header import Header, Request
from kerolox.wire.headers.clients import HeartBeat, HeartbeatTaken
from kerolox.wire.headers.messages import Pulled, PullMessage, SendMessageV2, Sent
from kerolox.wire.reply import Reply
from tests.remoting.support import Peer

A = TypeVar("A", bound=Header)

SMALL = {
    "brokerName": "broker-a",
    "listenPort": "0",
    # A busy machine may stall; tests of flow control set a shorter time.
    "waitTimeMillsInSendQueue": "30000",
    "mappedFileSizeCommitLog": str(1024 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 100),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


def settings(directory: Path, **changes: str) -> Settings:
    result = Settings()
    result.broker.namesrv_addr = None
    result.update({**SMALL, "storePathRootDir": str(directory), **changes})
    return result


class BrokerFixture:
    """A running broker, and shorthands for requests of clients."""

    def __init__(self, broker: Broker, client: Client) -> None:
        self.broker = broker
        self.client = client

    async def call(self, request: Request[A], body: bytes = b"", *, seconds: float = 10) -> Reply[A]:
        return await self.client.call(self.broker.address, request, body, timeout_seconds=seconds)

    async def send(self, topic: str, body: bytes, queue_id: int = 0, **names: str) -> Sent:
        return (await self.call(sending(topic, queue_id, **names), body)).fields

    async def pull(self, topic: str, queue_offset: int, queue_id: int = 0, **fields: object) -> Reply[Pulled]:
        return await self.call(pulling(topic, queue_id, queue_offset, **fields))

    async def messages(self, topic: str, queue_id: int = 0) -> list[Message]:
        """Return all messages of a queue."""
        queue = self.broker.store.queues.get(topic, queue_id)
        found: list[Message] = []
        while queue is not None and len(found) < queue.max_offset - queue.min_offset:
            got = self.broker.store.reader.get(topic, queue_id, queue.min_offset + len(found))
            found += decode_all(b"".join(got.records))
        return found

    async def heartbeat(
        self, client_id: str = "c", *, consumes: dict[str, list[str]] | None = None, produces: tuple[str, ...] = ()
    ) -> HeartbeatTaken:
        consumers = [
            ConsumerData(
                group_name=group,
                consume_type="CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                subscription_data_set=[SubscriptionData(topic=topic, sub_string="*") for topic in topics],
            )
            for group, topics in (consumes or {}).items()
        ]
        data = HeartbeatData(
            client_id=client_id,
            consumer_data_set=consumers,
            producer_data_set=[ProducerData(group) for group in produces],
        )
        return (await self.call(HeartBeat(), data.encode())).fields

    def counted(self, name: str, key: str) -> int:
        """Return how many messages were counted under a statistics name and key."""
        found = self.broker.statistics.find(name, key)
        return 0 if found is None else found[0].messages

    async def until_waiting(self, topic: str, queue_id: int = 0) -> None:
        """Return when a pull waits for a message of the queue."""
        async with asyncio.timeout(10):
            while not self.broker.store.message_waiters.waiting(topic, queue_id):
                await asyncio.sleep(0)


@asynccontextmanager
async def running(
    directory: Path, clock: Clock | None = None, policies: Sequence[Policy] = (), /, **changes: str
) -> AsyncIterator[BrokerFixture]:
    async with Broker(settings(directory, **changes), clock=clock, policies=policies) as broker, Client() as client:
        yield BrokerFixture(broker, client)


def sending(topic: str, queue_id: int = 0, sys_flag: int = 0, /, **names: str) -> SendMessageV2:
    return SendMessageV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=properties.to_bytes(names).decode() if names else None,
    )


def pulling(topic: str, queue_id: int, queue_offset: int, **fields: object) -> PullMessage:
    defaults = {
        "consumer_group": "group",
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": queue_offset,
        "max_msg_nums": 32,
        # The request carries its subscription and does not wait.
        "sys_flag": 0x4,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": "*",
        "sub_version": 0,
    }
    return PullMessage(**(defaults | fields))  # type: ignore[arg-type]


@asynccontextmanager
async def greedy(broker: BrokerFixture, requests: Iterable[Request[Any]]) -> AsyncIterator[Peer]:
    """A peer that has sent all these requests and reads no response until the test resumes reading."""
    async with await Peer.to(broker.broker.address, receive_buffer=4096) as peer:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        frames = [
            encode(JSON, code=request.code, opaque=opaque, flag=0, ext=request.ext())
            for opaque, request in enumerate(requests)
        ]
        await peer.send(b"".join(frames))
        yield peer


def unsent_size(broker: BrokerFixture) -> int:
    """Return how many bytes of responses the broker holds because the peer does not read."""
    return sum(connection.unsent_size for connection in broker.broker.server._connections)
