"""Message traces, as Java's clients write them and its tools read them: who sent and who consumed what, and when.

A record is its type and its fields, parted by 0x01 and ended by 0x02. All is text, and what is not there is `null`.
"""

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from kerolox.client.messages import Message
from kerolox.client.waiting import event_or_late
from kerolox.errors import KeroloxError, ProtocolError
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"

_FIELD, _RECORD = "\x01", "\x02"
# Java's bounds: what waits, what one message carries, and how long the first of them waits for more.
WAITING_MAX: Final = 2048
BATCH_COUNT: Final = 10
BODY_SIZE_MAX: Final = 128_000
LINGER_SECONDS: Final = 5.0

# How consuming ended, by Java's numbers.
SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL, FAILED = range(5)
# What kind of message it was, by Java's numbers.
NORMAL, TRANSACTION_HALF, TRANSACTION_COMMIT, DELAY, ORDER = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pub:
    """A message was sent, or, by a client in Java, a batch of them."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    topic: str | None = ""
    # Of a batch, all its ids parted by commas (MQClientAPIImpl.java, processSendResponse).
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
    """A message is handed to a consumer."""

    timestamp: int
    region_id: str | None = ""
    group: str | None = ""
    # Shared with the record that says how it ended.
    request_id: str | None = ""
    message_id: str | None = ""
    retry_times: int = 0
    keys: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAfter:
    """A consumer is done with a message."""

    request_id: str | None = ""
    message_id: str | None = ""
    cost_millis: int = 0
    is_success: bool = True
    keys: str | None = None
    context_code: int = SUCCESS
    # Not written before 4.8.
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
    """A message was taken back before it was delivered."""

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
    """Returns the names of the fields in their order, and how each is read."""
    hints = get_type_hints(kind)
    return [(field.name, _PARSERS.get(hints[field.name], _text_or_none)) for field in dataclasses.fields(kind)]


_KINDS: dict[str, tuple[type[Any], list[tuple[str, Callable[[str], Any]]]]] = {
    kind.__name__: (kind, _fields(kind)) for kind in (Pub, SubBefore, SubAfter, EndTransaction, Recall)
}
# Before 4.7 there was no offset id.
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
    # A separator inside of a value would be read as one.
    return str(value).replace(_FIELD, " ").replace(_RECORD, " ")


def decode(text: str) -> list[Record]:
    """Returns the records of a trace message, leaving out types that are not known here.

    What a shorter record of an older client lacks is as if it had never been set; ProtocolError for what is no number.
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
            named = zip(fields, values, strict=False)
            records.append(kind(**{field: parsed(value) for (field, parsed), value in named}))
        except (TypeError, ValueError) as error:
            raise ProtocolError(f"a trace record of type {name} cannot be read: {error}") from error
    return records


class Traces:
    """Sends records some at a time, from a task of its own; whoever adds one never waits.

    What cannot be sent is lost, and so is what comes while too much is waiting: traces do not disturb.
    """

    def __init__(self, send: Callable[[Message], Awaitable[object]], clock: Clock, *, topic: str = TRACE_TOPIC) -> None:
        self._send = send
        self._clock = clock
        self._topic = topic
        self._waiting: deque[Record] = deque()
        self._is_enough = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.lost_count = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="message traces")

    def add(self, *records: Record) -> None:
        room = WAITING_MAX - len(self._waiting)
        self.lost_count += max(0, len(records) - room)
        self._waiting.extend(records[:room])
        if len(self._waiting) >= BATCH_COUNT:
            self._is_enough.set()

    async def close(self) -> None:
        """Sends what is waiting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._waiting:
            await self._flush()
        if self.lost_count:
            log.warning("%d message traces were lost", self.lost_count)

    async def _run(self) -> None:
        while True:
            await event_or_late(self._is_enough, LINGER_SECONDS, self._clock)
            while len(self._waiting) >= BATCH_COUNT:
                await self._flush()
            if not self._is_enough.is_set():
                await self._flush()
            self._is_enough.clear()

    async def _flush(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(BATCH_COUNT, len(self._waiting)))]
        for message in messages_of(batch, self._topic):
            try:
                await self._send(message)
            except KeroloxError as error:
                self.lost_count += len(batch)
                log.warning("message traces could not be sent: %s", error)


def messages_of(records: Iterable[Record], topic: str = TRACE_TOPIC) -> list[Message]:
    """Returns the messages that carry these records; the ids and keys of what is traced are their keys."""
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
        for word in (record.message_id or "", *(getattr(record, "keys", None) or "").split(" ")):
            if word:
                keys[word] = None
    if lines:
        messages.append(Message(topic, "".join(lines).encode(), keys=tuple(keys)))
    return messages
