"""Helpers of consumer tests: sending, a recording handler, and committed offsets."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kerolox.client.consumer.group.consume_from import max_offset
from kerolox.client.consumer.group.member import GroupMember
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.messages import Received
from kerolox.client.session.session import Session
from kerolox.errors import QueryNotFound
from kerolox.message import properties
from kerolox.testing import Cluster
from kerolox.wire.headers.messages import SendMessageV2, Sent
from kerolox.wire.headers.offsets import GetMaxOffset, QueryConsumerOffset, UpdateConsumerOffset
from tests.client.sessions import options, session_of


class Sender:
    """Sends to brokers directly."""

    def __init__(self, cluster: Cluster, session: Session) -> None:
        self._cluster = cluster
        self._session = session

    async def send(
        self,
        topic: str,
        *bodies: bytes,
        queue_id: int = 0,
        broker: int = 0,
        tag: str | None = None,
        given: dict[str, str] | None = None,
        sys_flag: int = 0,
    ) -> list[Sent]:
        named = dict(given or ())
        if tag is not None:
            named["TAGS"] = tag
        sent: list[Sent] = []
        for body in bodies:
            request = SendMessageV2(
                producer_group="producers",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=4,
                queue_id=queue_id,
                sys_flag=sys_flag,
                born_timestamp=1_700_000_000_000,
                flag=0,
                properties=properties.to_bytes(named).decode(),
            )
            reply = await self._session.call(self._cluster.brokers[broker].address, request, body, timeout_seconds=10)
            sent.append(reply.fields)
        return sent

    async def committed(self, group: str, topic: str, queue_id: int = 0, broker: int = 0) -> int | None:
        """Return the committed offset of a group; None if there is none. The broker's default for new groups is off."""
        request = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, set_zero_if_not_found=False)
        try:
            return (await self._session.call(self._cluster.brokers[broker].address, request)).fields.offset
        except QueryNotFound:
            return None

    async def commit(self, group: str, topic: str, offset: int, queue_id: int = 0, broker: int = 0) -> None:
        request = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset)
        await self._session.call(self._cluster.brokers[broker].address, request)

    async def max_offset(self, topic: str, queue_id: int = 0, broker: int = 0) -> int | None:
        request = GetMaxOffset(topic=topic, queue_id=queue_id)
        return (await self._session.call(self._cluster.brokers[broker].address, request)).fields.offset


@asynccontextmanager
async def sender(cluster: Cluster) -> AsyncIterator[Sender]:
    async with session_of(options(cluster)) as session:
        yield Sender(cluster, session)


async def settled(member: GroupMember) -> None:
    """Return when the brokers have responded to all requests that the member has sent or is about to send.

    Responses on a connection come in order; two rounds, because the first responses may cause further requests.
    """
    for _ in range(2):
        for queue in member.assigned:
            await max_offset(member._session, queue)


class RecordingHandler:
    """A handler that records its messages, and returns or raises the given results."""

    def __init__(self, *results: Consumed | Exception | None) -> None:
        self.messages: list[Received] = []
        self.calls: list[list[bytes]] = []
        self._results = list(results)

    async def __call__(self, messages: list[Received]) -> Consumed | None:
        return self.handle(messages)

    def handle(self, messages: list[Received]) -> Consumed | None:
        self.messages += messages
        self.calls.append([message.body for message in messages])
        result = self._results.pop(0) if self._results else None
        if isinstance(result, Exception):
            raise result
        return result

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


def numbered(count: int, start: int = 0) -> Sequence[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
