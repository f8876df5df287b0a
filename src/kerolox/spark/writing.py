"""Sends the messages of a partition: many in a batch, several batches at once, each until a broker has it."""

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

from kerolox.client.errors import NoRoute, SendFailed
from kerolox.client.loop_thread import LoopThread
from kerolox.client.messages import SendStatus
from kerolox.client.names import RETRY_PREFIX
from kerolox.client.producer.outgoing import Outgoing
from kerolox.client.producer.queue_choice import Selector, TopicQueues
from kerolox.client.producer.sending import Sender
from kerolox.client.producer.settings import ProducerSettings
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, RemotingError, TopicNotFound
from kerolox.message.batch import PART_SIZE_MIN, pieces_of
from kerolox.message.tags import java_hash
from kerolox.spark.connecting import Connect, session_of
from kerolox.spark.heeding import check_heeded
from kerolox.spark.write_columns import Row

log = logging.getLogger(__name__)

R = TypeVar("R")

# What passes by itself, if one waits.
_PASSING: Final = frozenset(
    {
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.GO_AWAY,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
# So many bytes may wait for more that goes with them, however many topics and queues there are.
_HELD_MAX: Final = 32 * 1024 * 1024
_PAUSE_SECONDS: Final = 0.2
_PAUSE_SECONDS_MAX: Final = 3.0
# A topic is unknown while its only broker restarts. One that was never known is more likely a slip of the pen.
_UNKNOWN_SECONDS_MAX: Final = 15.0
# Topics that were written to by this process, with the NameServers that knew them.
_known: set[tuple[str, str]] = set()


class WriteFailed(Exception):
    """A message that no broker took; says its topic, and the broker's reason."""


@dataclass(frozen=True, kw_only=True)
class Sends:
    """How to send; it travels to the workers."""

    group: str
    batch_bytes: int = 512 * 1024
    in_flight_max: int = 8
    send_seconds: float = 10.0
    # Brokers that do not take a message are asked again for so long.
    retry_seconds: float = 60.0
    # All else that producers may be told.
    settings: ProducerSettings = field(default_factory=ProducerSettings)


@dataclass(slots=True)
class _Lane:
    """Messages that go together: to any queue of a topic, or, to keep their order, one after the other to one."""

    topic: str
    # Which queue; None for any.
    number: int | None
    turn: asyncio.Lock | None
    takes_no_batches: bool
    # What is joined to a batch, several for each message.
    pieces: list[bytes] = field(default_factory=list)
    count: int = 0
    size: int = 0


class Deliveries:
    """Used by one thread, while the messages travel on the event loop of this process."""

    def __init__(self, connect: Connect, sends: Sends, time_column: str | None = None) -> None:
        """`time_column` is the one with times of delivery, if there is one."""
        self._sends = sends
        self._time_column = time_column
        # Topics whose brokers heed such times.
        self._heeded: set[str] = set()
        self._name_servers = connect.name_servers_url or connect.name_servers
        self._thread = LoopThread.current()
        session = self._session = session_of(connect)
        settings = replace(
            sends.settings, send_timeout_seconds=sends.send_seconds, sends_in_flight_max=max(sends.in_flight_max, 1)
        )

        async def made() -> Sender:
            return Sender(session, sends.group, settings)

        self._sender = self._thread.wait(made())
        self._lanes: dict[tuple[str, int | None], _Lane] = {}
        self._lane_counts: dict[str, int] = {}
        # How many bytes wait in all lanes.
        self._held = 0
        self._in_flight: deque[Future[None]] = deque()
        self._failure: WriteFailed | None = None
        self.counts: Counter[str] = Counter()

    def add(self, rows: Iterable[Row]) -> None:
        """Sends messages, sooner or later; WriteFailed if one that came before could not be sent."""
        lanes, size_max = self._lanes, self._sends.batch_bytes
        for topic, body, properties, sharding_key, is_delayed in rows:
            number = None if sharding_key is None else self._lane_number(topic, sharding_key)
            lane = lanes.get((topic, number)) or self._lane(topic, number)
            if is_delayed or lane.takes_no_batches:
                if is_delayed and topic not in self._heeded:
                    self.check_times(topic)
                # What came before goes before.
                self._send(lane)
                self.counts[topic] += 1
                self._submit(_single(topic, body, properties), lane)
                continue
            size = PART_SIZE_MIN + len(body) + len(properties)
            if lane.size + size > size_max:
                self._send(lane)
            lane.pieces += pieces_of(body, properties)
            lane.count += 1
            lane.size += size
            self._held += size
            if self._held > _HELD_MAX:
                self._send(max(lanes.values(), key=lambda each: each.size))

    def check_times(self, topic: str) -> None:
        """TimeIgnored if there is a column of times, and a broker of this topic that does not heed them."""
        column = self._time_column
        if column is not None:
            self._thread.wait(self._patiently(topic, lambda: self._check_times(topic, column)))
        self._heeded.add(topic)

    async def _check_times(self, topic: str, column: str) -> None:
        brokers = (await self._queues(topic)).brokers
        await check_heeded(self._session, topic, brokers, column, self._sends.send_seconds)

    def finish(self) -> None:
        """Returns when brokers have all of it."""
        for lane in self._lanes.values():
            self._send(lane)
        while self._in_flight:
            self._in_flight.popleft().result()

    def close(self) -> None:
        """Gives up what is still under way."""
        for future in self._in_flight:
            future.cancel()
        with contextlib.suppress(KeroloxError):
            self._thread.wait(self._sender.close())

    def _lane(self, topic: str, number: int | None) -> _Lane:
        turn = None if number is None else asyncio.Lock()
        lane = self._lanes[topic, number] = _Lane(topic, number, turn, topic.startswith(RETRY_PREFIX))
        return lane

    def _lane_number(self, topic: str, key: str) -> int:
        """Returns the number of the queue that any producer would choose for this key."""
        count = self._lane_counts.get(topic)
        if count is None:
            count = self._lane_counts[topic] = self._thread.wait(self._queue_count(topic))
        return abs(_hash(key)) % count

    async def _queue_count(self, topic: str) -> int:
        return len((await self._patiently(topic, lambda: self._queues(topic))).queues)

    async def _queues(self, topic: str) -> TopicQueues:
        publishing = self._sender.publishing
        deadline = asyncio.get_running_loop().time() + self._sends.send_seconds
        return publishing.known(topic) or await publishing.find(topic, deadline)

    def _send(self, lane: _Lane) -> None:
        pieces, count = lane.pieces, lane.count
        if not count:
            return
        self._held -= lane.size
        lane.pieces, lane.count, lane.size = [], 0, 0
        self.counts[lane.topic] += count
        if count == 1:
            _, body, _, properties = pieces
            out = _single(lane.topic, body, properties)
        else:
            out = Outgoing(lane.topic, b"".join(pieces), "", "", kind="batch", born_millis=_now_millis())
        self._submit(out, lane)

    def _submit(self, out: Outgoing, lane: _Lane) -> None:
        while len(self._in_flight) >= self._sends.in_flight_max:
            self._in_flight.popleft().result()
        self._in_flight.append(self._thread.submit(self._deliver(out, lane)))

    async def _deliver(self, out: Outgoing, lane: _Lane) -> None:
        if lane.turn is None:
            await self._persist(out, None)
            return
        number = lane.number or 0
        # Locks are given in the order in which they are asked for.
        async with lane.turn:
            if self._failure is not None:
                raise self._failure
            await self._persist(out, lambda queues: queues[number % len(queues)])

    async def _persist(self, out: Outgoing, selector: Selector | None) -> None:
        result = await self._patiently(out.topic, lambda: self._sender.send(out, selector))
        _known.add((self._name_servers, out.topic))
        if result.status is not SendStatus.OK:
            log.warning("a batch for topic %s is stored, with %s", out.topic, result.status.value)

    async def _patiently(self, topic: str, attempt: Callable[[], Awaitable[R]]) -> R:
        """Returns what comes of an attempt, which is repeated while what is in its way may pass."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for pause in _pauses():
            try:
                return await attempt()
            except KeroloxError as error:
                cause = error.cause if isinstance(error, SendFailed) else error
                if loop.time() + pause >= start + self._patience(topic, cause):
                    self._failure = WriteFailed(f"a row could not be written to topic {topic!r}: {error}")
                    raise self._failure from error
                log.warning("what goes to topic %s is sent again: %s", topic, error)
                await asyncio.sleep(pause)
        raise AssertionError("there is always another pause")

    def _patience(self, topic: str, cause: BaseException) -> float:
        """Returns for how many seconds it is worth to go on after such a failure."""
        if isinstance(cause, TopicNotFound) and (self._name_servers, topic) not in _known:
            return min(self._sends.retry_seconds, _UNKNOWN_SECONDS_MAX)
        if isinstance(cause, AnswerError):
            return self._sends.retry_seconds if cause.code in _PASSING else 0.0
        return self._sends.retry_seconds if isinstance(cause, RemotingError | NoRoute) else 0.0


def _single(topic: str, body: bytes, properties: bytes) -> Outgoing:
    return Outgoing(topic, body, properties.decode(), "", born_millis=_now_millis())


def _pauses() -> Iterator[float]:
    pause = _PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _PAUSE_SECONDS_MAX)


def _now_millis() -> int:
    return int(time.time() * 1000)


_hash = functools.lru_cache(maxsize=65_536)(java_hash)
