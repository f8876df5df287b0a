"""Message trace records in Java's format, and the task that sends them (TraceDataEncoder, AsyncTraceDispatcher).

A record is its type and its fields, separated by 0x01 and terminated by 0x02. All fields are text; a missing value is
`null`.
"""

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from kerolox.client.messages import Message
from kerolox.errors import KeroloxError, ProtocolError
from kerolox.runtime.clock import Clock
from kerolox.runtime.waiting import wait_with_timeout

log = logging.getLogger(__name__)

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"

_FIELD, _RECORD = "\x01", "\x02"
# Java's limits: queued records, records per message, bytes per message, and how long a record waits for more.
WAITING_MAX: Final = 2048
BATCH_COUNT: Final = 10
BODY_SIZE_MAX: Final = 128_000
LINGER_SECONDS: Final = 5.0
# With this many records waiting, a message carries as many as those of Java 4.x, and several are sent concurrently.
BURST_BATCH_COUNT: Final = 100
CONCURRENT_BATCHES_MAX: Final = 8
WARNING_SECONDS: Final = 60.0

# Java's numbers for the result of consuming.
SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL, FAILED = range(5)
# Java's numbers for the type of a message.
NORMAL, TRANSACTION_HALF, TRANSACTION_COMMIT, DELAY, ORDER = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pub:
    """A message was sent, or a batch by a Java client."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    topic: str | None = ""
    # For a batch, all ids separated by commas (MQClientAPIImpl.java, processSendResponse).
    message_id: str | None = ""
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    body_size: int = 0
    cost_millis: int = 0
    message_type: int = NORMAL
    offset_id: str | None = ""
    is_success: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SubBefore:
    """A message is about to be consumed."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    # Shared with the SubAfter record of the same delivery.
    request_id: str | None = ""
    message_id: str | None = ""
    retry_times: int = 0
    keys: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAfter:
    """A message was consumed."""

    request_id: str | None = ""
    message_id: str | None = ""
    cost_millis: int = 0
    is_success: bool = True
    keys: str | None = None
    context_code: int = SUCCESS
    # Clients before 4.8 do not write this and the next.
    timestamp: int = 0
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A transaction was decided."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    topic: str | None = ""
    message_id: str | None = ""
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    message_type: int = TRANSACTION_COMMIT
    transaction_id: str | None = ""
    # COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW
    transaction_state: str | None = ""
    is_from_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A timed message was recalled before its delivery."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    topic: str | None = ""
    message_id: str | None = ""
    is_success: bool = True


Record = Pub | SubBefore | SubAfter | EndTransaction | Recall


def _text_or_none(text: str) -> str | None:
    return None if text == "null" else text


_PARSERS: dict[Any, Callable[[str], Any]] = {int: int, bool: lambda text: text == "true"}


def _fields(kind: type[Any]) -> list[tuple[str, Callable[[str], Any]]]:
    """Return the names of the fields in order, each with its parser."""
    hints = get_type_hints(kind)
    return [(field.name, _PARSERS.get(hints[field.name], _text_or_none)) for field in dataclasses.fields(kind)]


_KINDS: dict[str, tuple[type[Any], list[tuple[str, Callable[[str], Any]]]]] = {
    kind.__name__: (kind, _fields(kind)) for kind in (Pub, SubBefore, SubAfter, EndTransaction, Recall)
}
# Clients before 4.7 write no offset id.
_OLD_PUB_COUNT = 12


def encode(record: Record) -> str:
    name = type(record).__name__
    values = [_text(getattr(record, field)) for field, _ in _KINDS[name][1]]
    return _FIELD.join((name, *values)) + _RECORD


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A separator inside a value would end the field.
    return str(value).replace(_FIELD, " ").replace(_RECORD, " ")


def decode(text: str) -> list[Record]:
    """Return the records of a trace message, without those of unknown types.

    Fields that the record of an older client lacks have their defaults. Raises ProtocolError for a malformed number.
    """
    records: list[Record] = []
    for line in text.split(_RECORD):
        name, *values = line.split(_FIELD)
        if name not in _KINDS:
            continue
        kind, fields = _KINDS[name]
        if kind is Pub and len(values) == _OLD_PUB_COUNT:
            values.insert(_OLD_PUB_COUNT - 1, "")
        try:
            pairs = zip(fields, values, strict=False)
            records.append(kind(**{field: parse(value) for (field, parse), value in pairs}))
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"malformed trace record of type {name}: {error}") from error
    return records


class TraceDispatcher:
    """Sends records in batches from a background task; `add` never waits (AsyncTraceDispatcher).

    At most `waiting_max` records are queued. Further records, and those that cannot be sent, are dropped, because
    tracing must not slow down what it traces. `lost_count` counts them; a warning is logged at most once a minute.
    """

    def __init__(
        self,
        send: Callable[[Message], Awaitable[object]],
        clock: Clock,
        *,
        topic: str = TRACE_TOPIC,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._send = send
        self._clock = clock
        self._topic = topic
        self._waiting_max = waiting_max
        self._waiting: deque[Record] = deque()
        self._batch_ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._last_warning = float("-inf")
        self._warned_count = 0
        self.sent_count = 0
        self.lost_count = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="message traces")

    def add(self, *records: Record) -> None:
        room = self._waiting_max - len(self._waiting)
        self._waiting.extend(records[:room])
        if len(records) > room:
            self._drop(len(records) - room, f"{self._waiting_max} records are queued already")
        if len(self._waiting) >= BATCH_COUNT:
            self._batch_ready.set()

    async def close(self) -> None:
        """Send the queued records."""
        self._is_closing = True
        self._batch_ready.set()
        if self._task is not None:
            # Not cancelled: records in flight would be lost without being counted.
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            await self._flush()
        if self.lost_count > self._warned_count:
            log.warning("%d message traces were lost in total, %d were sent", self.lost_count, self.sent_count)

    async def _run(self) -> None:
        while not self._is_closing:
            await wait_with_timeout(self._batch_ready, LINGER_SECONDS, self._clock)
            while len(self._waiting) >= BATCH_COUNT:
                await self._flush()
            if not self._batch_ready.is_set():
                await self._flush()
            self._batch_ready.clear()

    async def _flush(self) -> None:
        """Send a batch, or several larger ones concurrently if many records are queued."""
        bursts = min(len(self._waiting) // BURST_BATCH_COUNT, CONCURRENT_BATCHES_MAX)
        batches = [self._take(BURST_BATCH_COUNT) for _ in range(bursts)] or [self._take(BATCH_COUNT)]
        await asyncio.gather(*map(self._send_batch, batches))

    def _take(self, count_max: int) -> list[Record]:
        return [self._waiting.popleft() for _ in range(min(count_max, len(self._waiting)))]

    async def _send_batch(self, batch: list[Record]) -> None:
        try:
            for message in messages_of(batch, self._topic):
                await self._send(message)
        except KeroloxError as error:
            self._drop(len(batch), str(error))
        else:
            self.sent_count += len(batch)

    def _drop(self, count: int, reason: str) -> None:
        self.lost_count += count
        now = self._clock.monotonic()
        if now - self._last_warning >= WARNING_SECONDS:
            lost = self.lost_count - self._warned_count
            log.warning("%d message traces were lost: %s", lost, reason)
            self._last_warning, self._warned_count = now, self.lost_count


def messages_of(records: Iterable[Record], topic: str = TRACE_TOPIC) -> list[Message]:
    """Return messages that carry these records, with the ids and keys of the traced messages as their keys."""
    messages: list[Message] = []
    lines: list[str] = []
    keys: dict[str, None] = {}
    size = 0
    for record in records:
        line = encode(record)
        if lines and size + len(line) > BODY_SIZE_MAX:
            messages.append(Message(topic, "".join(lines).encode(), keys=tuple(keys)))
            lines, keys, size = [], {}, 0
        lines.append(line)
        size += len(line)
        for key in (record.message_id or "", *(getattr(record, "keys", None) or "").split(" ")):
            if key:
                keys[key] = None
    if lines:
        messages.append(Message(topic, "".join(lines).encode(), keys=tuple(keys)))
    return messages
