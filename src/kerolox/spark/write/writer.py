"""Sends the messages of a partition: in batches, several of them in flight, each retried until a broker stores it."""

import asyncio
import contextlib
import functools
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.messages import SendStatus
from kerolox.client.producer.encoding import EncodedMessage
from kerolox.client.producer.queue_selection import Selector, TopicQueues
from kerolox.client.producer.send import Sender
from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.client.session.session import Session
from kerolox.codes import ResponseCode, Version
from kerolox.errors import AnswerError, KeroloxError, RemotingError, TopicNotFound
from kerolox.message.records.batch import PART_SIZE_MIN, pieces_of
from kerolox.message.tags import java_hash
from kerolox.spark.cluster.connection import ConnectionOptions, shared_session
from kerolox.spark.write.columns import EncodedRow
from kerolox.wire.headers.offsets import GetMaxOffset

log = logging.getLogger(__name__)

R = TypeVar("R")

# Codes of temporary failures.
_TEMPORARY_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
# The first release with timers.
DELIVERY_TIME_SINCE: Final[int] = Version.V5_0_0
# Limit on the bytes in all pending batches, however many topics and queues there are.
_PENDING_BYTES_MAX: Final = 32 * 1024 * 1024
_PAUSE_SECONDS: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 3.0
# A topic is unknown while its only broker restarts, so retry; but one that was never known is probably misspelt.
_UNKNOWN_TOPIC_SECONDS_MAX: Final = 15.0
# (NameServers, topic) of the topics that this process has written to.
_written_topics: set[tuple[str, str]] = set()


class DeliveryTimeUnsupported(Exception):
    """A broker is too old for delivery times; the message names the column, and the one that all brokers support."""


class WriteFailed(Exception):
    """A message that no broker stored; the message has the topic and the broker's reason."""


@dataclass(frozen=True, kw_only=True)
class SendOptions:
    """How to send; pickled to the workers."""

    group: str
    batch_bytes: int = 512 * 1024
    in_flight_max: int = 8
    send_seconds: float = 10.0
    # How long a send is retried.
    retry_seconds: float = 60.0
    # All other settings of the producer.
    settings: ProducerSettings = field(default_factory=ProducerSettings)


@dataclass(slots=True)
class _PendingBatch:
    """The next batch for a topic, or for one queue of it; batches for one queue are sent in order."""

    topic: str
    # Index of the queue; None for any queue.
    queue_index: int | None
    # Held while a batch is sent to the queue.
    lock: asyncio.Lock | None
    takes_no_batches: bool
    # Parts of the encoded batch, several for each message.
    pieces: list[bytes] = field(default_factory=list)
    count: int = 0
    size: int = 0


class PartitionSender:
    """Sends from the event loop of this process; its methods are called by one thread, and block."""

    def __init__(
        self, connection: ConnectionOptions, send_options: SendOptions, time_column: str | None = None
    ) -> None:
        """`time_column` is the column with delivery times, if there is one."""
        self._send_options = send_options
        self._time_column = time_column
        # Topics whose brokers support delivery times.
        self._checked_topics: set[str] = set()
        self._name_servers = connection.name_servers_url or connection.name_servers
        self._thread = LoopThread.current()
        session = self._session = shared_session(connection)
        settings = replace(
            send_options.settings,
            send_timeout_seconds=send_options.send_seconds,
            sends_in_flight_max=max(send_options.in_flight_max, 1),
        )

        async def create() -> Sender:
            return Sender(session, send_options.group, settings)

        self._sender = self._thread.wait(create())
        self._pending: dict[tuple[str, int | None], _PendingBatch] = {}
        self._queue_counts: dict[str, int] = {}
        # Number of bytes in all pending batches.
        self._pending_bytes = 0
        self._in_flight: deque[Future[None]] = deque()
        self._failure: WriteFailed | None = None
        self.counts: Counter[str] = Counter()

    def add(self, rows: Iterable[EncodedRow]) -> None:
        """Queues messages for sending; WriteFailed if an earlier one could not be sent."""
        pending, size_max = self._pending, self._send_options.batch_bytes
        for topic, body, properties, sharding_key, is_delayed in rows:
            index = None if sharding_key is None else self._queue_index(topic, sharding_key)
            batch = pending.get((topic, index)) or self._add_batch(topic, index)
            if is_delayed or batch.takes_no_batches:
                if is_delayed and topic not in self._checked_topics:
                    self.check_delivery_times(topic)
                # Earlier messages are sent first.
                self._send(batch)
                self.counts[topic] += 1
                self._submit(_single(topic, body, properties), batch)
                continue
            size = PART_SIZE_MIN + len(body) + len(properties)
            if batch.size + size > size_max:
                self._send(batch)
            batch.pieces += pieces_of(body, properties)
            batch.count += 1
            batch.size += size
            self._pending_bytes += size
            if self._pending_bytes > _PENDING_BYTES_MAX:
                self._send(max(pending.values(), key=lambda each: each.size))

    def check_delivery_times(self, topic: str) -> None:
        """DeliveryTimeUnsupported if there is a delivery time column, and a broker of the topic is older than 5.0."""
        column = self._time_column
        if column is not None:
            self._thread.wait(self._retry(topic, lambda: self._check_delivery_times(topic, column)))
        self._checked_topics.add(topic)

    async def _check_delivery_times(self, topic: str, column: str) -> None:
        brokers = (await self._queues(topic)).brokers
        await check_delivery_time_supported(
            self._session, topic, brokers, column, timeout_seconds=self._send_options.send_seconds
        )

    def finish(self) -> None:
        """Return when brokers have stored all messages."""
        for batch in self._pending.values():
            self._send(batch)
        while self._in_flight:
            self._in_flight.popleft().result()

    def close(self) -> None:
        """Cancel the sends in flight."""
        for future in self._in_flight:
            future.cancel()
        with contextlib.suppress(KeroloxError):
            self._thread.wait(self._sender.close())

    def _add_batch(self, topic: str, index: int | None) -> _PendingBatch:
        lock = None if index is None else asyncio.Lock()
        batch = self._pending[topic, index] = _PendingBatch(topic, index, lock, topic.startswith(RETRY_PREFIX))
        return batch

    def _queue_index(self, topic: str, key: str) -> int:
        """Return the index of the queue that every producer selects for this sharding key."""
        count = self._queue_counts.get(topic)
        if count is None:
            count = self._queue_counts[topic] = self._thread.wait(self._queue_count(topic))
        return abs(_hash(key)) % count

    async def _queue_count(self, topic: str) -> int:
        return len((await self._retry(topic, lambda: self._queues(topic))).queues)

    async def _queues(self, topic: str) -> TopicQueues:
        routes = self._sender.publish_info
        deadline = asyncio.get_running_loop().time() + self._send_options.send_seconds
        return routes.known(topic) or await routes.fetch(topic, deadline)

    def _send(self, batch: _PendingBatch) -> None:
        pieces, count = batch.pieces, batch.count
        if not count:
            return
        self._pending_bytes -= batch.size
        batch.pieces, batch.count, batch.size = [], 0, 0
        self.counts[batch.topic] += count
        if count == 1:
            _, body, _, properties = pieces
            out = _single(batch.topic, body, properties)
        else:
            out = EncodedMessage(batch.topic, b"".join(pieces), "", "", kind="batch", born_millis=_now_millis())
        self._submit(out, batch)

    def _submit(self, out: EncodedMessage, batch: _PendingBatch) -> None:
        while len(self._in_flight) >= self._send_options.in_flight_max:
            self._in_flight.popleft().result()
        self._in_flight.append(self._thread.submit(self._deliver(out, batch)))

    async def _deliver(self, out: EncodedMessage, batch: _PendingBatch) -> None:
        if batch.lock is None:
            await self._persist(out, None)
            return
        index = batch.queue_index or 0
        # asyncio.Lock is fair, so batches are sent in the order of submission.
        async with batch.lock:
            if self._failure is not None:
                raise self._failure
            await self._persist(out, lambda queues: queues[index % len(queues)])

    async def _persist(self, out: EncodedMessage, selector: Selector | None) -> None:
        result = await self._retry(out.topic, lambda: self._sender.send(out, selector))
        _written_topics.add((self._name_servers, out.topic))
        if result.status is not SendStatus.OK:
            log.warning("a batch for topic %s is stored with status %s", out.topic, result.status.value)

    async def _retry(self, topic: str, attempt: Callable[[], Awaitable[R]]) -> R:
        """Return the result of `attempt`, which is repeated after temporary failures."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for pause in _pauses():
            try:
                return await attempt()
            except KeroloxError as error:
                cause = error.cause if isinstance(error, SendFailed) else error
                if loop.time() + pause >= start + self._retry_seconds(topic, cause):
                    self._failure = WriteFailed(f"a row could not be written to topic {topic!r}: {error}")
                    raise self._failure from error
                log.warning("send to topic %s failed and is retried: %s", topic, error)
                await asyncio.sleep(pause)
        raise AssertionError("_pauses is infinite")

    def _retry_seconds(self, topic: str, cause: BaseException) -> float:
        """Return how long such a failure is retried."""
        if isinstance(cause, TopicNotFound) and (self._name_servers, topic) not in _written_topics:
            return min(self._send_options.retry_seconds, _UNKNOWN_TOPIC_SECONDS_MAX)
        if isinstance(cause, AnswerError):
            return self._send_options.retry_seconds if cause.code in _TEMPORARY_CODES else 0.0
        return self._send_options.retry_seconds if isinstance(cause, RemotingError | NoRoute) else 0.0


async def check_delivery_time_supported(
    session: Session, topic: str, brokers: Iterable[str], column: str, *, timeout_seconds: float
) -> None:
    """DeliveryTimeUnsupported if a broker is older than 5.0, KeroloxError if one does not respond.

    Older brokers store the delivery time, but deliver the message at once without an error.
    """
    older = []
    for name in sorted(brokers):
        address = session.routes.address(name)
        if address is None:
            raise NoRoute(f"broker {name!r} has no master now")
        # Every response has the version of the broker, whatever its code.
        response = await session.ask(address, GetMaxOffset(topic=topic, queue_id=0), timeout_seconds=timeout_seconds)
        if response.version < DELIVERY_TIME_SINCE:
            older.append(name)
    if older:
        raise DeliveryTimeUnsupported(
            f"column {column} needs brokers of 5.0 or newer, and topic {topic!r} is on older ones "
            f"({', '.join(older)}), which would deliver its rows at once: use the column delayLevel instead"
        )


def _single(topic: str, body: bytes, properties: bytes) -> EncodedMessage:
    return EncodedMessage(topic, body, properties.decode(), "", born_millis=_now_millis())


def _pauses() -> Iterator[float]:
    pause = _PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


def _now_millis() -> int:
    return int(time.time() * 1000)


_hash = functools.lru_cache(maxsize=65_536)(java_hash)
