"""What the driver asks of a cluster: which queues there are, where they begin and end, and how far a group is.

Its methods block; each asks about all queues at the same time.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from kerolox.client.loop_thread import LoopThread
from kerolox.client.names import is_system
from kerolox.client.routes import TopicRoute
from kerolox.client.session import Session
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed, KeroloxError, QueryNotFound, RemotingError
from kerolox.message.peek import peek
from kerolox.spark.connecting import Connect, session_of
from kerolox.spark.offsets import Offsets, QueueRange, listed
from kerolox.spark.times import Stored, first_from
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

_ASKED_AT_ONCE: Final = 64
_PAUSE_SECONDS: Final = 0.5
# So many messages of a queue are looked at to tell how large they are.
_SAMPLE_COUNT: Final = 32
_SUBSCRIPTION_BIT: Final = 4
# So many files without a record are passed over to find the one that follows an offset.
_HOLES_MAX: Final = 16
_NOTHING_HERE: Final = frozenset(
    code.value
    for code in (
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    )
)


@dataclass(frozen=True)
class Found:
    """Queues by what they answered, and those whose broker did not."""

    offsets: Offsets = field(default_factory=dict)
    failed: dict[MessageQueue, KeroloxError] = field(default_factory=dict)


class Cluster:
    """One for each process that plans; connected when it is first asked."""

    def __init__(self, connect: Connect, group: str) -> None:
        self._connect = connect
        self._group = group
        self._routes: dict[str, TopicRoute] = {}

    # Which queues there are

    def routes(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """Returns the routes of topics as they are now; topics that nobody knows have none."""
        routes = self._wait(self._gathered(topics, self._session.routes.refresh))
        found = {topic: route for topic, route in routes.items() if isinstance(route, TopicRoute)}
        for route in routes.values():
            if isinstance(route, KeroloxError):
                raise route
        self._routes.update(found)
        return found

    def topics_like(self, pattern: str) -> list[str]:
        """Returns the topics whose whole name matches, without the system's own.

        Those of retries and dead letters are meant only by a pattern that begins with their `%`.
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

        seconds = self._connect.api_millis / 1000
        return self._wait(self._session.name_servers.ask(ask, timeout_seconds=seconds))

    def addresses(self) -> dict[str, str]:
        """Returns where the brokers of all routes are that were asked for: each one's master, or else a slave."""
        found = {}
        for route in self._routes.values():
            for name, members in route.brokers.items():
                if members:
                    found[name] = members[min(members)]
        return found

    def address(self, part: QueueRange) -> str | None:
        """Returns where the broker of a range is now; None if its topic is not there any more."""
        route = self.routes([part.topic]).get(part.topic)
        if route is None or part.queue not in route.read_queues:
            return None
        members = route.brokers.get(part.broker_name)
        return members[min(members)] if members else None

    # Where they begin and end

    def ends(self, queues: Iterable[MessageQueue]) -> Found:
        """Returns for each queue the offset that its next message will have."""
        return self._offsets(queues, lambda queue: o.GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))

    def begins(self, queues: Iterable[MessageQueue]) -> Found:
        """Returns for each queue the offset of its first message."""
        return self._offsets(queues, lambda queue: o.GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))

    def at(self, times: Mapping[MessageQueue, int], ends: Offsets) -> Found:
        """Returns for each queue the first offset stored at a time or later; its end if there is none."""

        async def one(queue: MessageQueue) -> int:
            millis = times[queue]
            request = o.SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=millis)
            guess = (await self._call(queue, request)).fields.offset or 0
            smallest = o.GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
            begin = min(max((await self._call(queue, smallest)).fields.offset or 0, 0), ends[queue])
            return await first_from(millis, guess, begin, ends[queue], partial(self._stored, queue))

        return self._found(times, one)

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> Found:
        """Returns how far a group has come in those queues for which it has an offset."""

        async def one(queue: MessageQueue) -> int | None:
            request = o.QueryConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
            )
            try:
                return (await self._call(queue, request)).fields.offset
            except QueryNotFound:
                return None

        return self._found(queues, one)

    def commit(self, group: str, offsets: Offsets) -> Offsets:
        """Tells brokers how far a group has come, and returns what was told.

        What fails is logged, since only people look at it.
        """

        async def one(queue: MessageQueue) -> int:
            request = o.UpdateConsumerOffset(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offsets[queue]
            )
            await self._call(queue, request)
            return offsets[queue]

        told = self._found(offsets, one)
        for queue, error in told.failed.items():
            log.warning("how far group %s is in %s was not told: %s", group, listed([queue]), error)
        return told.offsets

    def mean_sizes(self, offsets: Offsets) -> dict[MessageQueue, float]:
        """Returns how large the next messages of each queue are, as far as a few of them tell; 1 KiB if none do."""

        async def one(queue: MessageQueue) -> int:
            records = await self._sample(queue, offsets[queue], _SAMPLE_COUNT)
            count, at = 0, 0
            while at < len(records):
                at += max(int.from_bytes(records[at : at + 4]), 1)
                count += 1
            return len(records) // count if count else 1024

        found = self._found(offsets, one)
        return {queue: float(found.offsets.get(queue, 1024)) for queue in offsets}

    async def _stored(self, queue: MessageQueue, offset: int) -> Stored | None:
        """Returns the message at an offset, or the first that the broker has after it."""
        for _ in range(_HOLES_MAX):
            command = await self._pulled(queue, offset, 1)
            if command.code == ResponseCode.SUCCESS:
                record = peek(command.body)
                return Stored(max(record.queue_offset, offset), record.store_timestamp)
            if command.code not in _NOTHING_HERE:
                raise AnswerError.of(command.code, command.remark)
            offset = max(Pulled.decode(command.ext).next_begin_offset, offset)
        return None

    async def _sample(self, queue: MessageQueue, offset: int, count: int) -> bytes:
        command = await self._pulled(queue, offset, count)
        return command.body if command.code == ResponseCode.SUCCESS else b""

    async def _pulled(self, queue: MessageQueue, offset: int, count: int) -> Command:
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
        seconds = self._connect.api_millis / 1000
        return await self._session.ask(self._broker(queue), request, timeout_seconds=seconds)

    # Asking

    def patiently(self, ask: Callable[[], R], what: str) -> R:
        """Returns what a question is answered with; it is asked again while servers do not answer, for retryTimeout."""
        deadline = time.monotonic() + self._connect.retry_millis / 1000
        while True:
            try:
                return ask()
            except (RemotingError, AnswerError) as error:
                if isinstance(error, AnswerError) and error.code not in _BUSY:
                    raise
                if time.monotonic() >= deadline:
                    raise
                log.warning("%s are not known, and asked for again: %s", what, error)
                time.sleep(_PAUSE_SECONDS)

    @property
    def _session(self) -> Session:
        return session_of(self._connect)

    @staticmethod
    def _wait(coroutine: Coroutine[Any, Any, R]) -> R:
        return LoopThread.current().wait(coroutine)

    def _offsets(
        self, queues: Iterable[MessageQueue], request: Callable[[MessageQueue], Request[o.OffsetFound]]
    ) -> Found:
        async def one(queue: MessageQueue) -> int:
            # A queue into which nothing was ever sent is unknown to the store, which says -1 then.
            return max((await self._call(queue, request(queue))).fields.offset or 0, 0)

        return self._found(queues, one)

    def _found(self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Awaitable[int | None]]) -> Found:
        answers = self._wait(self._gathered(queues, ask))
        return Found(
            {queue: answer for queue, answer in answers.items() if isinstance(answer, int)},
            {queue: answer for queue, answer in answers.items() if isinstance(answer, KeroloxError)},
        )

    async def _call(self, queue: MessageQueue, request: Request[A]) -> Reply[A]:
        seconds = self._connect.api_millis / 1000
        return await self._session.call(self._broker(queue), request, timeout_seconds=seconds)

    def _broker(self, queue: MessageQueue) -> str:
        route = self._routes.get(queue.topic)
        members = route.brokers.get(queue.broker_name) if route is not None else None
        if not members:
            raise ConnectFailed(f"no address of broker {queue.broker_name} is known")
        return members[min(members)]

    @staticmethod
    async def _gathered(keys: Iterable[Any], ask: Callable[[Any], Awaitable[R]]) -> dict[Any, R | KeroloxError]:
        """Returns for each what came of asking about it; some at a time."""
        gate = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def one(key: Any) -> R | KeroloxError:
            async with gate:
                try:
                    return await ask(key)
                except KeroloxError as error:
                    return error

        keys = list(keys)
        return dict(zip(keys, await asyncio.gather(*map(one, keys)), strict=True))


_BUSY = frozenset(
    code.value for code in (ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE)
)
