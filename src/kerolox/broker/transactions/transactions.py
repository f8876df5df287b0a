"""The transactions of a broker: which half messages there are, and what has become of them."""

import asyncio
import logging
from collections import OrderedDict

from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import HALF_TOPIC, TIMER_TOPIC
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions import half as halves
from kerolox.broker.transactions.check import Checker
from kerolox.broker.transactions.counts import TransactionCounts
from kerolox.broker.transactions.ended import Ended
from kerolox.broker.transactions.ops import Ops
from kerolox.message import sysflag
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.record import decode
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.delay.delays import DELAY_MARK, SCHEDULE_TOPIC
from kerolox.store.store import Store
from kerolox.store.timer.divert import ANY_TIMER

log = logging.getLogger(__name__)

# Transactions that ended while their producer was being asked; only of so many is it remembered.
_LATE_MAX = 10_000

# What stays the same in all the records of one transaction: its unique key, and when and where it was born.
Identity = tuple[bytes, int, bytes]


class Transactions(Service):
    """To be opened after the store and the table of offsets, and closed before them."""

    def __init__(
        self,
        config: BrokerConfig,
        storing: Storing,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        clock: Clock,
    ) -> None:
        self._store: Store = storing.store
        self.ended = Ended()
        self.counts = TransactionCounts()
        self.ops = Ops(config, storing, clock)
        self.checker = Checker(config, storing, topics, offsets, clients, self.ended, self, clock)
        self._late: OrderedDict[Identity, None] = OrderedDict()
        # What lies before this place in the log was there when the broker began.
        self._begin_offset = 0

    # Life

    async def open(self) -> None:
        self._begin_offset = self._store.log.end_offset
        self.checker.load()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.ops.run(), name="ends of transactions")
            tasks.create_task(self.ops.run_often(), name="many ends of transactions")
            tasks.create_task(self.checker.run(), name="check of transactions")

    async def close(self) -> None:
        await self.ops.close()
        await self.checker.save()

    # Ending

    def find(self, queue_offset: int, physical_offset: int) -> Message | None:
        """Returns the half message at a place in the log, or None if there is none.

        The queue decides where it can, for a body may look like a record; what readers may not see yet is not in it.
        """
        reader = self._store.reader
        record = reader.record_at(physical_offset)
        if record is None:
            return None
        try:
            half = decode(record)
        except RecordError:
            return None
        if half.topic != HALF_TOPIC or half.queue_id != halves.QUEUE_ID or half.physical_offset != physical_offset:
            return None
        if physical_offset < self._store.dispatcher.offset and queue_offset == half.queue_offset:
            known = reader.physical_offset(HALF_TOPIC, halves.QUEUE_ID, queue_offset)
            return half if known == physical_offset else None
        return half

    def finish(self, half: Message) -> None:
        """Notes that a half message was committed or rolled back."""
        if half.queue_offset in self.ended:
            return
        if half.queue_offset < self.ended.cursor:
            # Its producer has been asked meanwhile, and another half message waits for the answer.
            self._late[identity(half)] = None
            if len(self._late) > _LATE_MAX:
                self._late.popitem(last=False)
        self.ended.mark(half.queue_offset)
        self.ops.add(half.queue_offset)

    # What has ended before

    def is_late(self, half: Message) -> bool:
        """Whether another half message of the same transaction has ended meanwhile."""
        return identity(half) in self._late

    def is_doubtful(self, half: Message, *, is_asked: bool) -> bool:
        """Whether a message may have been committed before.

        That is so if its producer was asked, which makes another half message of it, or if the broker has been
        started since, for then the op may have been lost.
        """
        offset = half.queue_offset
        is_repeated = offset < self.ended.cursor or offset in self.ended
        return is_asked or is_repeated or half.physical_offset < self._begin_offset

    async def is_committed(self, half: Message) -> bool:
        """Whether the log has the message that this one was to become; False if there is no index to ask.

        Others have their turn meanwhile: whoever has chosen the key may have made it a long search.
        """
        key = halves.unique_key(half)
        if not key:
            return False
        topics = [halves.target(half)[0]]
        if DELAY_MARK in half.properties:
            topics.append(SCHEDULE_TOPIC)
        if ANY_TIMER in half.properties:
            topics.append(TIMER_TOPIC)
        for topic in topics:
            if await self._has_committed(topic, half, key):
                return True
        return False

    async def _has_committed(self, topic: str, half: Message, key: bytes) -> bool:
        reader = self._store.reader
        for found in await reader.look_for(topic, key):
            if sysflag.transaction_type(found.sys_flag) == sysflag.COMMIT:
                record = reader.record_at(found.physical_offset, found.size)
                if record is not None and identity(decode(record)) == identity(half):
                    return True
        return False


def identity(message: Message) -> Identity:
    return halves.unique_key(message), message.born_timestamp, message.born_host
