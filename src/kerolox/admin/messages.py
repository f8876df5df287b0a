"""Messages: found by id, key or place, read from queues, and handed to a consumer."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum

from kerolox.admin.connections import RELAY_SECONDS
from kerolox.admin.errors import MessageNotFound
from kerolox.admin.moments import Moment, to_millis
from kerolox.admin.queues import Queues
from kerolox.admin.servers import Servers, broker_at
from kerolox.client.members import DirectResult
from kerolox.client.messages import Received, received
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, QueryNotFound
from kerolox.message import hosts
from kerolox.message.errors import IdError
from kerolox.message.ids import parse_offset_id
from kerolox.message.message import Message as Record
from kerolox.message.record import decode_all
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import messages as m
from kerolox.wire.headers.broker import ResumeCheckHalfMessage
from kerolox.wire.headers.clients import ConsumeMessageDirectly

# Brokers have this group for tools.
_TOOLS_GROUP = "TOOLS_CONSUMER"
# The expression is in the request, not in a heartbeat.
_SUBSCRIPTION_BIT = 4
_PULL_COUNT = 32
_KEY_COUNT = 64
_LONG_MAX = 2**63 - 1


class PullStatus(Enum):
    """How a pull ended, under Java's names."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one pull brought, where to go on, and where the queue begins and ends."""

    status: PullStatus
    messages: list[Received]
    next_offset: int
    min_offset: int
    max_offset: int


_STATUSES: dict[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MSG,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MSG,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class Messages:
    def __init__(self, servers: Servers, queues: Queues) -> None:
        self._servers = servers
        self._queues = queues
        # How a record becomes what a user gets; who shows what strangers have sent may want to restore bodies later.
        self.restore: Callable[[Record, MessageQueue], Received] = received

    # Finding

    async def by_id(self, message_id: str, topic: str | None = None) -> Received:
        """Returns a message by either of its ids: the one that says where it lies, or with a topic its producer's.

        MessageNotFound if it is not, or no longer, there.
        """
        if topic is not None:
            found = await self.by_unique_key(topic, message_id)
            if found:
                return found[0]
        try:
            host, offset = parse_offset_id(message_id)
        except IdError:
            if topic is None:
                raise
            raise MessageNotFound(f"no broker of topic {topic!r} has a message of id {message_id}") from None
        return await self._at(hosts.to_text(host), offset, message_id)

    async def _at(self, address: str, offset: int, message_id: str) -> Received:
        try:
            reply = await self._servers.call(address, m.ViewMessageById(offset=offset))
        except AnswerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:
                raise MessageNotFound(f"broker {address} has no message of id {message_id}: {error}") from error
            raise
        name = broker_at(await self._servers.cluster_info(), address) or address
        return self._seen(decode_all(reply.body)[0], name)

    async def by_unique_key(self, topic: str, message_id: str, *, count_max: int = 32) -> list[Received]:
        """Returns the messages to which their producer gave this id: none, one, or several that were sent again."""
        return await self._search(
            topic, message_id, 0, _LONG_MAX, count_max, True, lambda it: it.message_id == message_id
        )

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: Moment = 0,
        end: Moment = _LONG_MAX,
        count_max: int = _KEY_COUNT,
    ) -> list[Received]:
        """Returns messages of a topic that have a key, stored between two times; the oldest first.

        Each broker gives at most `count_max`, and no more than 64.
        """
        return await self._search(
            topic, key, to_millis(begin), to_millis(end), count_max, False, lambda it: key in it.keys
        )

    async def _search(
        self,
        topic: str,
        key: str,
        begin_millis: int,
        end_millis: int,
        count_max: int,
        is_unique_key: bool,
        is_meant: Callable[[Record], bool],
    ) -> list[Received]:
        request = m.QueryMessage(
            topic=topic,
            key=key,
            max_num=count_max,
            begin_timestamp=begin_millis,
            end_timestamp=end_millis,
            is_unique_key=is_unique_key,
        )

        async def ask(address: str) -> list[Record]:
            try:
                return decode_all((await self._servers.call(address, request)).body)
            except QueryNotFound:
                return []

        answers = await self._servers.each("QUERY_MESSAGE", await self._servers.brokers_of(topic), ask)
        found = [
            self._seen(record, broker)
            for broker, records in answers.items()
            for record in records
            # Brokers find by hash only.
            if record.topic == topic and is_meant(record)
        ]
        return sorted(found, key=lambda message: message.stored_millis)

    # Reading

    async def at(self, queue: MessageQueue, offset: int) -> Received:
        """Returns the message at an offset of a queue; MessageNotFound if there is none."""
        address = await self._servers.address(queue.broker_name)
        found = (await self._pull(address, queue, offset, 1, "*")).messages
        if not found or found[0].queue_offset != offset:
            raise MessageNotFound(f"there is no message at {offset} of {queue}")
        return found[0]

    async def read(
        self,
        queue: MessageQueue,
        *,
        begin_offset: int | None = None,
        end_offset: int | None = None,
        begin: Moment | None = None,
        end: Moment | None = None,
        expression: str = "*",
    ) -> AsyncIterator[Received]:
        """Yields the messages of a queue from a place or a time on, up to another or to what is there now.

        Nobody's progress is touched by it.
        """
        address = await self._servers.address(queue.broker_name)
        if begin_offset is None and begin is not None:
            begin_offset = await self._queues.search_at(address, queue, to_millis(begin))
        if end_offset is None and end is not None:
            # To the millisecond: what was stored at the end belongs to it.
            end_offset = await self._queues.search_at(address, queue, to_millis(end) + 1)
        low, high = await self._queues.min_at(address, queue), await self._queues.max_at(address, queue)
        offset = low if begin_offset is None else max(low, begin_offset)
        stop = high if end_offset is None else min(high, end_offset)
        while offset < stop:
            pulled = await self._pull(address, queue, offset, min(_PULL_COUNT, stop - offset), expression)
            for message in pulled.messages:
                if offset <= message.queue_offset < stop:
                    yield message
            if pulled.next_offset <= offset:
                return
            offset = pulled.next_offset

    async def read_topic(
        self, topic: str, *, begin: Moment | None = None, end: Moment | None = None, expression: str = "*"
    ) -> AsyncIterator[Received]:
        """Yields the messages of all queues of a topic, one queue after the other."""
        for queue in (await self._servers.route(topic)).read_queues:
            async for message in self.read(queue, begin=begin, end=end, expression=expression):
                yield message

    async def pull(
        self, queue: MessageQueue, offset: int, *, count: int = _PULL_COUNT, expression: str = "*"
    ) -> Pulled:
        """Returns what one pull brings, and how it ended; for who wants to know more than `read` tells."""
        return await self._pull(await self._servers.address(queue.broker_name), queue, offset, count, expression)

    async def _pull(self, address: str, queue: MessageQueue, offset: int, count: int, expression: str) -> Pulled:
        request = m.PullMessage(
            consumer_group=_TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_SUBSCRIPTION_BIT,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=expression,
            sub_version=0,
            expression_type="TAG",
        )
        answer = await self._servers.session.ask(address, request, timeout_seconds=self._servers.timeout_seconds)
        status = _STATUSES.get(answer.code)
        if status is None:
            raise AnswerError.of(answer.code, answer.remark)
        header = m.Pulled.decode(answer.ext)
        records = decode_all(answer.body) if status is PullStatus.FOUND else []
        return Pulled(
            status,
            [self.restore(record, queue) for record in records],
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
        )

    # Doing

    async def consume_directly(self, group: str, client_id: str, message: Received) -> DirectResult:
        """Has one consumer consume a message now, whatever its progress, and returns how that went."""
        request = ConsumeMessageDirectly(
            consumer_group=group, client_id=client_id, msg_id=message.offset_id, topic=message.record.topic
        )
        reply = await self._servers.call(message.store_host, request, timeout_seconds=RELAY_SECONDS)
        return DirectResult.decode(reply.body)

    async def resume_check(self, topic: str, message_id: str) -> None:
        """Has a broker ask once more what became of a transaction that it had given up; the id says where it lies."""
        host, _ = parse_offset_id(message_id)
        await self._servers.call(hosts.to_text(host), ResumeCheckHalfMessage(topic=topic, msg_id=message_id))

    def _seen(self, record: Record, broker_name: str) -> Received:
        return self.restore(record, MessageQueue(broker_name, record.queue_id, record.topic))
