"""The op queue: its records name half messages that were committed or rolled back (TransactionalOpBatchService)."""

import asyncio
import logging
from itertools import islice

from kerolox.broker.config import BrokerConfig
from kerolox.broker.send.put import MessagePut
from kerolox.broker.tables.system_topics import OP_TOPIC
from kerolox.broker.transactions.half_queue import QUEUE_ID, append_of
from kerolox.errors import AnswerError
from kerolox.message import property_names
from kerolox.message.message import Message
from kerolox.message.properties import find, mark
from kerolox.runtime.clock import Clock
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.log.pending_acks import AckStatus

log = logging.getLogger(__name__)

_TAGS = mark(property_names.TAGS)
_REMOVE_TAG = b"d"
# The properties that Java writes.
_PROPERTIES = b"WAIT\x01true\x02TAGS\x01d\x02"
_LONG_DIGITS_MAX = 19
# Resolved half messages without a written op; ten times Java's limit, since they wait until the log is durable.
_PENDING_MAX = 200_000


def half_offsets(op: Message) -> list[int]:
    """Return the half message offsets that an op names: one in 4.x (`12`), several in 5.x (`12,13,`)."""
    if find(op.properties, _TAGS) != _REMOVE_TAG:
        log.error("op record at queue offset %d is ignored: unknown tag %r", op.queue_offset, op.tags)
        return []
    words = op.body.split(b",")
    return [int(word) for word in words if word.isdigit() and len(word) <= _LONG_DIGITS_MAX]


class OpQueue:
    """Collects resolved half messages and writes many into one op record: when it is full, at an interval, at close.

    An op is written only when the committed message is durable: otherwise a power cut could remove the message and
    leave the op. If a power cut removes the op, the committed message is found by its unique key.
    """

    def __init__(self, config: BrokerConfig, message_put: MessagePut, clock: Clock) -> None:
        self._config = config
        self._message_put = message_put
        self._clock = clock
        self._pending: list[bytes] = []
        self._size = 0
        self._in_progress: set[asyncio.Future[None]] = set()
        self._is_batch_full = asyncio.Event()
        # The last record was not stored; the next attempt waits for the interval, however many ops there are.
        self._is_failing = False
        self._writing = asyncio.Lock()

    @property
    def is_full(self) -> bool:
        """Whether no more transactions should be resolved, because too many ops could not be written."""
        return len(self._pending) >= _PENDING_MAX

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, queue_offset: int) -> None:
        """Add a resolved half message; it is written soon."""
        word = b"%d," % queue_offset
        self._pending.append(word)
        self._size += len(word)
        if self._size >= self._config.transaction_op_msg_max_size and not self._is_failing:
            self._is_batch_full.set()

    async def write(self) -> None:
        """Write all collected ops; those that fail are written by the next call."""
        async with self._writing:
            self._is_batch_full.clear()
            count, store = len(self._pending), self._message_put.store
            if not count:
                return
            end = store.log.end_offset
            await store.flusher.flush()
            if store.flusher.durable_offset < end:
                log.error("transaction ops are not written: the log is not durable up to %d", end)
                return
            while count > 0:
                words = self._take(count)
                count -= len(words)
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._in_progress.add(future)
                pending = _PendingOp(self, words, future)
                try:
                    self._message_put.submit(self._append(words), pending)
                except AnswerError as error:
                    # The store is overloaded and would refuse the other records too.
                    pending.refused(error)
                    return

    async def run(self) -> None:
        """Write at the interval `transactionOpBatchInterval`."""
        while True:
            await self._clock.sleep(self._config.transaction_op_batch_interval / 1000)
            self._is_failing = False
            await self.write()

    async def run_on_full_batch(self) -> None:
        """Write whenever there are enough ops for a record."""
        while True:
            await self._is_batch_full.wait()
            await self.write()

    async def close(self) -> None:
        """Write the remaining ops, as long as some succeed."""
        left: int | None = None
        while len(self) != left:
            left = len(self)
            await self.write()
            while self._in_progress:
                await asyncio.wait(self._in_progress)
        if self._pending:
            log.error("%d transaction ops are not written; their producers will be asked again", len(self))

    def finished(self, future: asyncio.Future[None]) -> None:
        self._in_progress.discard(future)
        future.set_result(None)

    def refused(self, words: list[bytes], error: Exception) -> None:
        if not self._is_failing:
            log.error("transaction ops could not be written, will retry: %s", error)
        self._is_failing = True
        self._pending[:0] = words
        self._size += sum(map(len, words))

    def _take(self, count_max: int) -> list[bytes]:
        size = count = 0
        for word in islice(self._pending, count_max):
            size += len(word)
            count += 1
            if size >= self._config.transaction_op_msg_max_size:
                break
        words = self._pending[:count]
        del self._pending[:count]
        self._size -= size
        return words

    def _append(self, words: list[bytes]) -> Append:
        host = self._message_put.store_host
        now = self._clock.millis()
        message = Message(
            OP_TOPIC, b"".join(words), _PROPERTIES, QUEUE_ID, born_timestamp=now, born_host=host, store_host=host
        )
        return append_of(message)


class _PendingOp:
    """Waits for an op record to be stored."""

    __slots__ = ("_future", "_op_queue", "_words")

    def __init__(self, op_queue: OpQueue, words: list[bytes], future: asyncio.Future[None]) -> None:
        self._op_queue = op_queue
        self._words = words
        self._future = future

    def stored(self, appended: Appended, status: AckStatus) -> None:
        self._op_queue.finished(self._future)

    def refused(self, error: Exception) -> None:
        self._op_queue.refused(self._words, error)
        self._op_queue.finished(self._future)
