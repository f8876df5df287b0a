"""Messages: find them by id, key or offset, read queues, and look up their tracks and traces."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum

from kerolox.admin.connections import RELAY_SECONDS, Connections
from kerolox.admin.errors import AdminError, MessageNotFound
from kerolox.admin.offsets import Offsets
from kerolox.admin.queues import Queues, Timestamp, to_millis
from kerolox.admin.targets import Servers
from kerolox.admin.topics import Topics
from kerolox.client.messages import Received, received
from kerolox.client.session.members import DirectResult
from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import TRACE_TOPIC
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConsumerNotOnline, KeroloxError, QueryNotFound
from kerolox.message import hosts
from kerolox.message.errors import IdError
from kerolox.message.ids import parse_offset_id
from kerolox.message.message import Message as Record
from kerolox.message.records.record import decode_all
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers import messages as m
from kerolox.wire.headers.broker import ResumeCheckHalfMessage
from kerolox.wire.headers.clients import ConsumeMessageDirectly

# The group that brokers reserve for tools.
_TOOLS_GROUP = "TOOLS_CONSUMER"
# sysFlag: the pull request contains the subscription.
_SUBSCRIPTION_BIT = 4
_PULL_COUNT = 32
_KEY_COUNT = 64
_LONG_MAX = 2**63 - 1


class PullStatus(Enum):
    """The result of a pull, with Java's names."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"


@dataclass(frozen=True, slots=True)
class Pulled:
    """The messages of one pull, the next offset, and the offsets of the queue."""

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
        # Converts a record and decompresses its body. A caller that shows untrusted messages may replace it.
        self.restore: Callable[[Record, MessageQueue], Received] = received

    # Search

    async def by_id(self, message_id: str, topic: str | None = None) -> Received:
        """Return a message by its offset id or, if `topic` is given, also by the id from its producer.

        Raises MessageNotFound if it does not exist, or has expired.
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
        return self._received(decode_all(reply.body)[0], await self._servers.name(address))

    async def by_unique_key(self, topic: str, message_id: str, *, count_max: int = 32) -> list[Received]:
        """Return the messages with this id from their producer: several if it was sent more than once."""
        request = m.QueryMessage(
            topic=topic,
            key=message_id,
            max_num=count_max,
            begin_timestamp=0,
            end_timestamp=_LONG_MAX,
            is_unique_key=True,
        )
        return await self._search(request, lambda it: it.message_id == message_id)

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin: Timestamp = 0,
        end: Timestamp = _LONG_MAX,
        count_max: int = _KEY_COUNT,
        cluster: str | None = None,
        last_key: str | None = None,
    ) -> list[Received]:
        """Return messages of a topic with a key, stored between two timestamps, oldest first.

        Each broker returns at most `count_max` messages, and at most 64. With `cluster`, only brokers of that cluster
        are queried. `last_key` is for Java brokers with an index in RocksDB, which continue after it; others ignore it.
        """
        request = m.QueryMessage(
            topic=topic,
            key=key,
            max_num=count_max,
            begin_timestamp=to_millis(begin),
            end_timestamp=to_millis(end),
            index_type=m.INDEX_KEY if last_key else None,
            last_key=last_key,
            is_unique_key=False,
        )
        return await self._search(request, lambda it: key in it.keys, cluster)

    async def by_tag(
        self,
        topic: str,
        tag: str,
        *,
        begin: Timestamp = 0,
        end: Timestamp = _LONG_MAX,
        count_max: int = _KEY_COUNT,
        cluster: str | None = None,
        last_key: str | None = None,
    ) -> list[Received]:
        """Return messages of a topic with a tag; otherwise like `by_key`. Java brokers index tags since 5.5."""
        request = m.QueryMessage(
            topic=topic,
            key=tag,
            max_num=count_max,
            begin_timestamp=to_millis(begin),
            end_timestamp=to_millis(end),
            index_type=m.INDEX_TAG,
            last_key=last_key,
            is_unique_key=False,
        )
        return await self._search(request, lambda it: it.tags == tag, cluster)

    async def _search(
        self, request: m.QueryMessage, is_match: Callable[[Record], bool], cluster: str | None = None
    ) -> list[Received]:
        topic = request.topic

        async def ask(address: str) -> list[Record]:
            try:
                return decode_all((await self._servers.call(address, request)).body)
            except QueryNotFound:
                return []

        brokers = await self._servers.brokers_of(topic, cluster=cluster)
        responses = await self._servers.each("QUERY_MESSAGE", brokers, ask)
        found = [
            self._received(record, broker)
            for broker, records in responses.items()
            for record in records
            # The index of a broker compares only hashes.
            if record.topic == topic and is_match(record)
        ]
        return sorted(found, key=lambda message: message.stored_millis)

    # Reading

    async def at(self, queue: MessageQueue, offset: int) -> Received:
        """Return the message at an offset of a queue; raise MessageNotFound if there is none."""
        address = await self._servers.readable_address(queue.broker_name)
        found = (await self._pull(address, queue, offset, 1, "*")).messages
        if not found or found[0].queue_offset != offset:
            raise MessageNotFound(f"there is no message at offset {offset} of {queue}")
        return found[0]

    async def read(
        self,
        queue: MessageQueue,
        *,
        begin_offset: int | None = None,
        end_offset: int | None = None,
        begin: Timestamp | None = None,
        end: Timestamp | None = None,
        expression: str = "*",
    ) -> AsyncIterator[Received]:
        """Yield the messages of a queue between two offsets or timestamps, by default all that are stored now.

        Does not change the offsets of any group.
        """
        address = await self._servers.readable_address(queue.broker_name)
        if begin_offset is None and begin is not None:
            begin_offset = await self._queues.search_at(address, queue, to_millis(begin))
        if end_offset is None and end is not None:
            # The end is inclusive to the millisecond.
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
        self, topic: str, *, begin: Timestamp | None = None, end: Timestamp | None = None, expression: str = "*"
    ) -> AsyncIterator[Received]:
        """Yield the messages of all queues of a topic, one queue after the other."""
        for queue in (await self._servers.route(topic)).read_queues:
            async for message in self.read(queue, begin=begin, end=end, expression=expression):
                yield message

    async def pull(
        self, queue: MessageQueue, offset: int, *, count: int = _PULL_COUNT, expression: str = "*"
    ) -> Pulled:
        """Pull once and return the messages with status and offsets, which `read` does not show."""
        return await self._pull(
            await self._servers.readable_address(queue.broker_name), queue, offset, count, expression
        )

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
        response = await self._servers.session.ask(address, request, timeout_seconds=self._servers.timeout_seconds)
        status = _STATUSES.get(response.code)
        if status is None:
            raise AnswerError.of(response.code, response.remark)
        header = m.Pulled.decode(response.ext)
        records = decode_all(response.body) if status is PullStatus.FOUND else []
        return Pulled(
            status,
            [self.restore(record, queue) for record in records],
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
        )

    # Actions

    async def consume_directly(self, group: str, client_id: str, message: Received) -> DirectResult:
        """Make one consumer consume a message now, regardless of its offset, and return the result."""
        request = ConsumeMessageDirectly(
            consumer_group=group, client_id=client_id, msg_id=message.offset_id, topic=message.record.topic
        )
        reply = await self._servers.call(message.store_host, request, timeout_seconds=RELAY_SECONDS)
        return DirectResult.decode(reply.body)

    async def resume_check(self, topic: str, message_id: str) -> None:
        """Make a broker check a transaction again that it had given up; the offset id names the broker."""
        host, _ = parse_offset_id(message_id)
        await self._servers.call(hosts.to_text(host), ResumeCheckHalfMessage(topic=topic, msg_id=message_id))

    def _received(self, record: Record, broker_name: str) -> Received:
        return self.restore(record, MessageQueue(broker_name, record.queue_id, record.topic))


class TrackType(Enum):
    """The state of a message in a consumer group, with Java's names."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    # The group pulls, so only the application knows what it has consumed.
    PULL = "PULL"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Track:
    group: str
    type: TrackType
    # Why the type is UNKNOWN or NOT_ONLINE.
    error: KeroloxError | None = None


class Tracks:
    def __init__(self, servers: Servers, topics: Topics, offsets: Offsets, connections: Connections) -> None:
        self._servers = servers
        self._topics = topics
        self._offsets = offsets
        self._connections = connections

    async def of_message(self, message: Received) -> list[Track]:
        """Return the state of a message in each group that consumes its topic."""
        groups = await self._topics.groups(message.record.topic)
        return await self._servers.gather(groups, lambda group: self._track(message, group))

    async def _track(self, message: Received, group: str) -> Track:
        try:
            return Track(group, await self._track_type(message, group))
        except ConsumerNotOnline as error:
            return Track(group, TrackType.NOT_ONLINE, error)
        except KeroloxError as error:
            return Track(group, TrackType.UNKNOWN, error)

    async def _track_type(self, message: Received, group: str) -> TrackType:
        consumers = await self._connections.consumers(group)
        if consumers.message_model == "BROADCASTING":
            return TrackType.CONSUME_BROADCASTING
        if consumers.consume_type == "CONSUME_ACTIVELY":
            return TrackType.PULL
        topic = message.record.topic
        progress = (await self._offsets.progress(group, topic)).queues.get(message.queue)
        if progress is None:
            raise AdminError(f"group {group!r} has no offset for {message.queue}")
        if progress.consumer_offset <= message.queue_offset:
            return TrackType.NOT_CONSUME_YET
        subscription = consumers.subscription_table.get(topic)
        tags = set((subscription and subscription.tags_set) or ())
        is_wanted = not tags or "*" in tags or message.tag in tags
        return TrackType.CONSUMED if is_wanted else TrackType.CONSUMED_BUT_FILTERED


class Traces:
    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    async def of_message(
        self, message_id: str, *, begin: Timestamp = 0, end: Timestamp = _LONG_MAX, trace_topic: str = TRACE_TOPIC
    ) -> list[trace_format.Record]:
        """Return the trace records of a message by the id from its producer, in order of time.

        Clients send traces some seconds late, and only if tracing is enabled. Raises ProtocolError for a malformed one.
        """
        return await self._records(message_id, begin, end, trace_topic, is_id=True)

    async def by_key(
        self, key: str, *, begin: Timestamp = 0, end: Timestamp = _LONG_MAX, trace_topic: str = TRACE_TOPIC
    ) -> list[trace_format.Record]:
        """Return the trace records of the messages with a key."""
        return await self._records(key, begin, end, trace_topic, is_id=False)

    async def _records(
        self, key: str, begin: Timestamp, end: Timestamp, topic: str, *, is_id: bool
    ) -> list[trace_format.Record]:
        trace_messages = await self._messages.by_key(topic, key, begin=begin, end=end)
        records = [
            record
            for message in trace_messages
            for record in trace_format.decode(message.body.decode("utf-8", "replace"))
        ]
        # A trace message contains records of several messages.
        found = [record for record in records if (record.message_id == key if is_id else key in _keys(record))]
        return sorted(found, key=lambda record: record.timestamp)


def _keys(record: trace_format.Record) -> list[str]:
    return (getattr(record, "keys", None) or "").split(" ")
