"""What became of half messages, as records: an op names those that were committed or rolled back."""

import asyncio
import logging
from itertools import islice

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import OP_TOPIC
from kerolox.broker.transactions.half import QUEUE_ID, draft_of
from kerolox.errors import AnswerError
from kerolox.message import names
from kerolox.message.message import Message
from kerolox.message.properties import find, mark
from kerolox.runtime.clock import Clock
from kerolox.store.log.commit_log import Appended, Draft

log = logging.getLogger(__name__)

_TAGS = mark(names.TAGS)
_REMOVE_TAG = b"d"
# As Java writes them.
_PROPERTIES = b"WAIT\x01true\x02TAGS\x01d\x02"
_LONG_DIGITS_MAX = 19
# Ends that are not written yet; ten times the bound of the original, as they wait for the disk.
_PENDING_MAX = 200_000


def half_offsets(op: Message) -> list[int]:
    """Returns the half messages that an op names: one in 4.x, `12`, and several in 5.x, `12,13,`."""
    if find(op.properties, _TAGS) != _REMOVE_TAG:
        log.error("the op at %d has the tag %r, and is not understood", op.queue_offset, op.tags)
        return []
    words = op.body.split(b",")
    return [int(word) for word in words if word.isdigit() and len(word) <= _LONG_DIGITS_MAX]


class Ops:
    """Gathers ops and writes many as one record: when there are enough, every so often, and in the end.

    An op is written only when what was committed is durable, so that a power cut cannot take the one and leave the
    other. It can take the op; then the commit is found by its unique key.
    """

    def __init__(self, config: BrokerConfig, storing: Storing, clock: Clock) -> None:
        self._config = config
        self._storing = storing
        self._clock = clock
        self._pending: list[bytes] = []
        self._size = 0
        self._under_way: set[asyncio.Future[None]] = set()
        self._is_enough = asyncio.Event()
        # The last was not stored, and the next is tried when some time has passed, however many there are.
        self._is_refused = False
        self._writing = asyncio.Lock()

    @property
    def is_full(self) -> bool:
        """Whether so many could not be written that no more should be taken."""
        return len(self._pending) >= _PENDING_MAX

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, queue_offset: int) -> None:
        """Notes what became of a half message; it is written soon."""
        word = b"%d," % queue_offset
        self._pending.append(word)
        self._size += len(word)
        if self._size >= self._config.transaction_op_msg_max_size and not self._is_refused:
            self._is_enough.set()

    async def write(self) -> None:
        """Has all that was gathered stored; what is not comes with the next."""
        async with self._writing:
            self._is_enough.clear()
            count, store = len(self._pending), self._storing.store
            if not count:
                return
            end = store.log.end_offset
            await store.flusher.flush()
            if store.flusher.durable_offset < end:
                log.error("ends of transactions are not written: the log is not durable up to %d", end)
                return
            while count > 0:
                words = self._take(count)
                count -= len(words)
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._under_way.add(future)
                written = _Written(self, words, future)
                try:
                    self._storing.submit(self._draft(words), written)
                except AnswerError as error:
                    # Too much waits for the disk already; there is no use in the rest before that is over.
                    written.refused(error)
                    return

    async def run(self) -> None:
        """Writes every so often."""
        while True:
            await self._clock.sleep(self._config.transaction_op_batch_interval / 1000)
            self._is_refused = False
            await self.write()

    async def run_often(self) -> None:
        """Writes whenever there is enough for a record."""
        while True:
            await self._is_enough.wait()
            await self.write()

    async def close(self) -> None:
        """Writes what is left, as long as any of it can be written."""
        left: int | None = None
        while len(self) != left:
            left = len(self)
            await self.write()
            while self._under_way:
                await asyncio.wait(self._under_way)
        if self._pending:
            log.error("%d ends of transactions are not written; their producers will be asked again", len(self))

    def written(self, future: asyncio.Future[None]) -> None:
        self._under_way.discard(future)
        future.set_result(None)

    def refused(self, words: list[bytes], error: Exception) -> None:
        if not self._is_refused:
            log.error("ends of transactions could not be written, which is tried again: %s", error)
        self._is_refused = True
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

    def _draft(self, words: list[bytes]) -> Draft:
        host = self._storing.store_host
        now = self._clock.millis()
        message = Message(
            OP_TOPIC, b"".join(words), _PROPERTIES, QUEUE_ID, born_timestamp=now, born_host=host, store_host=host
        )
        return draft_of(message)


class _Written:
    """Waits for a record of ops to be stored."""

    __slots__ = ("_future", "_ops", "_words")

    def __init__(self, ops: Ops, words: list[bytes], future: asyncio.Future[None]) -> None:
        self._ops = ops
        self._words = words
        self._future = future

    def stored(self, appended: Appended, is_durable: bool) -> None:
        self._ops.written(self._future)

    def refused(self, error: Exception) -> None:
        self._ops.refused(self._words, error)
        self._ops.written(self._future)
