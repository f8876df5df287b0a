"""Transactions: half messages, their outcomes and checks (TransactionalMessageServiceImpl)."""

import asyncio
import logging
from collections import OrderedDict

from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.system_topics import HALF_TOPIC, TIMER_TOPIC
from kerolox.broker.transactions import half_queue
from kerolox.broker.transactions.checker import Checker
from kerolox.broker.transactions.metrics import TransactionMetrics
from kerolox.broker.transactions.op_queue import OpQueue
from kerolox.broker.transactions.resolved import ResolvedHalves
from kerolox.message import sysflag
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.runtime.service import Service
from kerolox.store.delay.delay_levels import DELAY_MARK, SCHEDULE_TOPIC
from kerolox.store.timer.divert import ANY_TIMER

log = logging.getLogger(__name__)

# Transactions remembered that were resolved while their producer was being asked.
_RESOLVED_LATE_MAX = 10_000

# Fields that all records of one transaction share: unique key, born timestamp, born host.
Identity = tuple[bytes, int, bytes]


class TransactionService(Service):
    """Opens after the store and the table of consumer offsets, and closes before them."""

    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self.resolved = ResolvedHalves()
        self.metrics = TransactionMetrics()
        self.op_queue = OpQueue(parts.config, parts.message_put, parts.clock)
        self.checker = Checker(parts, self.resolved, history=self)
        # Transactions that were resolved after the check had put their half message back, oldest first.
        self._resolved_late: OrderedDict[Identity, None] = OrderedDict()
        # The end of the log when the broker started.
        self._start_offset = 0

    async def open(self) -> None:
        self._start_offset = self._store.log.end_offset
        self.checker.load()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.op_queue.run(), name="transaction ops")
            tasks.create_task(self.op_queue.run_on_full_batch(), name="full batches of transaction ops")
            tasks.create_task(self.checker.run(), name="transaction check")

    async def close(self) -> None:
        await self.op_queue.close()
        await self.checker.save()

    def find(self, queue_offset: int, physical_offset: int) -> Message | None:
        """Return the half message at a physical offset; None if there is none.

        The offset comes from a client, and bytes of a message body may look like a record. Therefore the consume
        queue must have it too, unless the record is so new that it is not dispatched yet. Waits for the disk, unless
        `ColdReads` calls it.
        """
        reader = self._store.reader
        record = reader.record_at(physical_offset)
        if record is None:
            return None
        try:
            half = decode(record)
        except RecordError:
            return None
        if half.topic != HALF_TOPIC or half.queue_id != half_queue.QUEUE_ID or half.physical_offset != physical_offset:
            return None
        if physical_offset < self._store.dispatcher.offset and queue_offset == half.queue_offset:
            indexed_offset = reader.physical_offset(HALF_TOPIC, half_queue.QUEUE_ID, queue_offset)
            return half if indexed_offset == physical_offset else None
        return half

    def resolve(self, half: Message) -> None:
        """Record that a half message was committed or rolled back."""
        if half.queue_offset in self.resolved:
            return
        if half.queue_offset < self.resolved.cursor:
            # The check has put another half message of this transaction back meanwhile.
            self._resolved_late[identity(half)] = None
            if len(self._resolved_late) > _RESOLVED_LATE_MAX:
                self._resolved_late.popitem(last=False)
        self.resolved.mark(half.queue_offset)
        self.op_queue.add(half.queue_offset)

    def is_resolved_late(self, half: Message) -> bool:
        """Whether an earlier half message of the same transaction was resolved after this one was put back."""
        return identity(half) in self._resolved_late

    def may_be_committed(self, half: Message, *, is_checked: bool) -> bool:
        """Whether the message may have been committed before, so that `is_committed` must be asked.

        It may if its producer was asked, which creates another half message, or if the broker was restarted since,
        because the op may be lost.
        """
        offset = half.queue_offset
        is_repeated = offset < self.resolved.cursor or offset in self.resolved
        return is_checked or is_repeated or half.physical_offset < self._start_offset

    async def is_committed(self, half: Message) -> bool:
        """Whether the log has the committed message of a half message; False if there is no key index.

        Yields to other tasks: the client chooses the key, and with many equal hashes the search takes long.
        """
        key = half_queue.unique_key(half)
        if not key:
            return False
        topics = [half_queue.target(half)[0]]
        if DELAY_MARK in half.properties:
            topics.append(SCHEDULE_TOPIC)
        if ANY_TIMER in half.properties:
            topics.append(TIMER_TOPIC)
        for topic in topics:
            if await self._has_committed(topic, half, key):
                return True
        return False

    async def _has_committed(self, topic: str, half: Message, key: bytes) -> bool:
        lookup = self._store.lookup
        for candidate in await lookup.find(topic, key):
            if sysflag.transaction_type(candidate.sys_flag) == sysflag.COMMIT:
                record = await lookup.record_at(candidate.physical_offset, candidate.size)
                if record is not None and identity(decode(record)) == identity(half):
                    return True
        return False


def identity(message: Message) -> Identity:
    return half_queue.unique_key(message), message.born_timestamp, message.born_host
