"""Queries of the driver: the queues of topics, their min and max offsets, and the offsets of consumer groups.

Methods block; each of them queries all queues concurrently.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.resource_names import is_system
from kerolox.client.session.session import Session
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed, KeroloxError, QueryNotFound, RemotingError
from kerolox.message.records.summary import peek
from kerolox.spark.cluster.connection import ConnectionOptions, shared_session
from kerolox.spark.read.offset_json import Offsets, QueueRange, format_queues
from kerolox.spark.read.timestamp_lookup import StoredMessage, find_first_offset
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.topics import TopicList
from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.headers import offsets as o
from kerolox.wire.headers.messages import Pulled, PullMessage
from kerolox.wire.headers.namesrv import GetAllTopicListFromNameserver, GetSystemTopicListFromNs
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)
R = TypeVar("R")

_CONCURRENT_REQUESTS_MAX: Final = 64
_PAUSE_SECONDS: Final = 0.5
# Number of messages per queue that are pulled to estimate the message size.
_SAMPLE_COUNT: Final = 32
_SUBSCRIPTION_BIT: Final = 4
# Number of responses without a message that are skipped to find the message after an offset.
_HOLES_MAX: Final = 16
_NO_MESSAGE_CODES: Final = frozenset(
    code.value
    for code in (
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)


@dataclass(frozen=True)
class QueueOffsets:
    """Offsets of the queues whose broker responded, and the errors of the others."""

    offsets: Offsets = field(default_factory=dict)
    failed: dict[MessageQueue, KeroloxError] = field(default_factory=dict)


class ClusterMetadata:
    """One per planning process; it connects with the first query."""

    def __init__(self, connection: ConnectionOptions, group: str) -> None:
        self._connection = connection
        self._group = group
        self._routes: dict[str, TopicRoute] = {}

    # Topics and routes

    def routes(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """Return fresh routes; topics that no NameServer knows are left out."""
        routes = self._wait(self._ask_all(topics, self._session.routes.refresh))
        found = {topic: route for topic, route in routes.items() if isinstance(route, TopicRoute)}
        for route in routes.values():
            if isinstance(route, KeroloxError):
                raise route
        self._routes.update(found)
        return found

    def matching_topics(self, pattern: str) -> list[str]:
        """Return the topics whose whole name matches, without system topics.

        Retry and dead letter topics match only a pattern that starts with `%`.
        """
        topics = set(self._topics(GetAllTopicListFromNameserver()))
        topics -= set(self._topics(GetSystemTopicListFromNs()))
        matches = re.compile(pattern).fullmatch
        return sorted(
            topic
            for topic in topics
            if matches(topic) and not is_system(topic) and (pattern.startswith("%") or not topic.startswith("%"))
        )

    def _topics(self, request: Request[Any]) -> list[str]:
        async def ask(address: str, seconds: float) -> list[str]:
            reply = await self._session.call(address, request, timeout_seconds=seconds)
            return TopicList.decode(reply.body).topic_list

        seconds = self._connection.api_millis / 1000
        return self._wait(self._session.name_servers.ask(ask, timeout_seconds=seconds))

    def addresses(self) -> dict[str, str]:
        """Return the address of every broker in the routes queried so far: the master, or else a slave."""
        found = {}
        for route in self._routes.values():
            for name, members in route.brokers.items():
                if members:
                    found[name] = members[min(members)]
        return found

    def address(self, part: QueueRange) -> str | None:
        """Return the current address of the broker of a range; None if its topic or queue no longer exists."""
        route = self.routes([part.topic]).get(part.topic)
        if route is None or part.queue not in route.read_queues:
            return None
        members = route.brokers.get(part.broker_name)
        return members[min(members)] if members else None

    # Offsets

    def max_offsets(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        """Return the offset of the next message of each queue."""
        return self._offsets(queues, lambda queue: o.GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))

    def min_offsets(self, queues: Iterable[MessageQueue]) -> QueueOffsets:
        """Return the offset of the first message of each queue."""
        return self._offsets(queues, lambda queue: o.GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))

    def offsets_at(self, times: Mapping[MessageQueue, int], ends: Offsets) -> QueueOffsets:
        """Return the first offset of each queue that was stored at its time or later; its end if there is none."""

        async def one(queue: MessageQueue) -> int:
            millis = times[queue]
            request = o.SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=millis)
            guess = (await self._call(queue, request)).fields.offset or 0
            smallest = o.GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
            begin = min(max((await self._call(queue, smallest)).fields.offset or 0, 0), ends[queue])
            return await find_first_offset(millis, guess, begin, ends[queue], partial(self._stored, queue))

        return self._ask_queues(times, one)

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> QueueOffsets:
        """Return the committed offsets of a group; queues without one are left out."""

        async def one(queue: MessageQueue) -> int | None:
            request = o.QueryConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
            )
            try:
                return (await self._call(queue, request)).fields.offset
            except QueryNotFound:
                return None

        return self._ask_queues(queues, one)

    def commit(self, group: str, offsets: Offsets) -> Offsets:
        """Commit offsets of a group, and return those that brokers accepted.

        Failures are only logged: the offsets serve monitoring, the query itself uses its checkpoint.
        """

        async def one(queue: MessageQueue) -> int:
            request = o.UpdateConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offsets[queue]
            )
            await self._call(queue, request)
            return offsets[queue]

        committed = self._ask_queues(offsets, one)
        for queue, error in committed.failed.items():
            log.warning("offset of group %s in %s was not committed: %s", group, format_queues([queue]), error)
        return committed.offsets

    def mean_sizes(self, offsets: Offsets) -> dict[MessageQueue, float]:
        """Estimate the size of the next messages of each queue from a few of them; 1 KiB if there are none."""

        async def one(queue: MessageQueue) -> int:
            records = await self._sample(queue, offsets[queue], _SAMPLE_COUNT)
            count, at = 0, 0
            while at < len(records):
                at += max(int.from_bytes(records[at : at + 4]), 1)
                count += 1
            return len(records) // count if count else 1024

        found = self._ask_queues(offsets, one)
        return {queue: float(found.offsets.get(queue, 1024)) for queue in offsets}

    def stored_from(self, queue: MessageQueue, offset: int) -> StoredMessage | None:
        """Return the message at an offset, or else the first one after it; None if there is none."""
        return self._wait(self._stored(queue, offset))

    async def _stored(self, queue: MessageQueue, offset: int) -> StoredMessage | None:
        """Return the message at an offset, or the first that the broker has after it."""
        for _ in range(_HOLES_MAX):
            command = await self._pull(queue, offset, 1)
            if command.code == ResponseCode.SUCCESS:
                record = peek(command.body)
                return StoredMessage(max(record.queue_offset, offset), record.store_timestamp)
            if command.code not in _NO_MESSAGE_CODES:
                raise AnswerError.of(command.code, command.remark)
            offset = max(Pulled.decode(command.ext).next_begin_offset, offset)
        return None

    async def _sample(self, queue: MessageQueue, offset: int, count: int) -> bytes:
        command = await self._pull(queue, offset, count)
        return command.body if command.code == ResponseCode.SUCCESS else b""

    async def _pull(self, queue: MessageQueue, offset: int, count: int) -> Command:
        request = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=_SUBSCRIPTION_BIT,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
        )
        seconds = self._connection.api_millis / 1000
        return await self._session.ask(self._broker(queue), request, timeout_seconds=seconds)

    # Requests

    def retry(self, query: Callable[[], R], what: str) -> R:
        """Return the result of `query`, which is retried for retryTimeout while servers are down or busy."""
        deadline = time.monotonic() + self._connection.retry_millis / 1000
        while True:
            try:
                return query()
            except (RemotingError, AnswerError) as error:
                if isinstance(error, AnswerError) and error.code not in _BUSY_CODES:
                    raise
                if time.monotonic() >= deadline:
                    raise
                log.warning("query of %s failed and is retried: %s", what, error)
                time.sleep(_PAUSE_SECONDS)

    @property
    def _session(self) -> Session:
        return shared_session(self._connection)

    @staticmethod
    def _wait(coroutine: Coroutine[Any, Any, R]) -> R:
        return LoopThread.current().wait(coroutine)

    def _offsets(
        self, queues: Iterable[MessageQueue], request: Callable[[MessageQueue], Request[o.OffsetFound]]
    ) -> QueueOffsets:
        async def one(queue: MessageQueue) -> int:
            # The store returns -1 for a queue that never had a message.
            return max((await self._call(queue, request(queue))).fields.offset or 0, 0)

        return self._ask_queues(queues, one)

    def _ask_queues(
        self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Awaitable[int | None]]
    ) -> QueueOffsets:
        answers = self._wait(self._ask_all(queues, ask))
        return QueueOffsets(
            {queue: answer for queue, answer in answers.items() if isinstance(answer, int)},
            {queue: answer for queue, answer in answers.items() if isinstance(answer, KeroloxError)},
        )

    async def _call(self, queue: MessageQueue, request: Request[A]) -> Reply[A]:
        seconds = self._connection.api_millis / 1000
        return await self._session.call(self._broker(queue), request, timeout_seconds=seconds)

    def _broker(self, queue: MessageQueue) -> str:
        route = self._routes.get(queue.topic)
        members = route.brokers.get(queue.broker_name) if route is not None else None
        if not members:
            raise ConnectFailed(f"the address of broker {queue.broker_name} is unknown")
        return members[min(members)]

    @staticmethod
    async def _ask_all(keys: Iterable[Any], ask: Callable[[Any], Awaitable[R]]) -> dict[Any, R | KeroloxError]:
        """Return result or error by key; the number of concurrent requests is limited."""
        limit = asyncio.Semaphore(_CONCURRENT_REQUESTS_MAX)

        async def one(key: Any) -> R | KeroloxError:
            async with limit:
                try:
                    return await ask(key)
                except KeroloxError as error:
                    return error

        keys = list(keys)
        return dict(zip(keys, await asyncio.gather(*map(one, keys)), strict=True))


_BUSY_CODES = frozenset(
    code.value for code in (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE)
)
