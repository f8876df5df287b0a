"""Sessions for tests, members that record their calls, and helpers that wait."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Unpack

from kerolox.client.messages import Received
from kerolox.client.options import Options, Shared
from kerolox.client.session.members import DirectResult, TransactionCheck
from kerolox.client.session.session import Session
from kerolox.testing import Cluster
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue


def options(cluster: Cluster, **keywords: Unpack[Shared]) -> Options:
    return Options(**({"namesrv_addr": cluster.namesrv_addr, "client_ip": "127.0.0.1"} | keywords))


@asynccontextmanager
async def session_of(given: Options) -> AsyncIterator[Session]:
    session = await Session.acquire(given)
    try:
        yield session
    finally:
        await session.release()


@contextmanager
def silent_server() -> Iterator[str]:
    """Yield the address of a server that accepts connections but never reads."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def run_ready_callbacks() -> None:
    """Run the event loop until all callbacks that are ready, and those they schedule, have run."""
    for _ in range(20):
        await asyncio.sleep(0)


class RecordingProducer:
    def __init__(self) -> None:
        self.checks: list[TransactionCheck] = []

    async def check_transaction(self, check: TransactionCheck) -> None:
        self.checks.append(check)


class Info(Body):
    properties: dict[str, str]


class RecordingConsumer:
    """A ConsumerMember that records its calls."""

    consume_type = "CONSUME_PASSIVELY"
    message_model = "CLUSTERING"
    consume_from_where = "CONSUME_FROM_FIRST_OFFSET"
    is_unit = False

    def __init__(self, *topics: str) -> None:
        self.topics = topics
        self.rebalanced = 0
        self.resets: list[tuple[str, Mapping[MessageQueue, int]]] = []
        self.consumed: list[Received] = []
        self.offsets: dict[MessageQueue, int] = {}

    def subscriptions(self) -> Sequence[SubscriptionData]:
        return [SubscriptionData(topic=topic, sub_string="*", sub_version=1) for topic in self.topics]

    def rebalance_soon(self) -> None:
        self.rebalanced += 1

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append((topic, offsets))

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        return {queue: offset for queue, offset in self.offsets.items() if queue.topic == topic}

    def running_info(self, *, has_stacks: bool) -> Body:
        return Info({"stacks": str(has_stacks)})

    async def consume_directly(self, message: Received) -> DirectResult:
        self.consumed.append(message)
        return DirectResult(consume_result="CR_SUCCESS", spent_time_mills=1)
