"""The queues that a member of a group has: taken, moved in, and given up."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime, timedelta

from kerolox.client.consumer.locks import QueueLocks
from kerolox.client.consumer.offsets import Offsets
from kerolox.client.consumer.positions import start_offset
from kerolox.client.consumer.reading import Reader, Room
from kerolox.client.consumer.settings import Membership
from kerolox.client.consumer.strategies import java_order
from kerolox.client.session import Session
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


class QueueOwner(ABC):
    """Has a reader for each queue. Who else it is, and how it comes to its queues, is up to the member."""

    def __init__(self, wrapped_group: str, membership: Membership) -> None:
        self.membership = membership
        self._wrapped_group = wrapped_group
        self._readers: dict[MessageQueue, Reader] = {}
        # Queues that were given up, and whose messages the handler still has.
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        # Why one of them could not be had, if there was one.
        self._untaken: KeroloxError | None = None
        self.started_millis = 0
        self.room = self._room(1)
        # Set when the member starts.
        self._session: Session
        self.offsets: Offsets
        self.locks: QueueLocks | None = None

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads now, the group's retries among them."""
        return sorted(self._readers, key=java_order)

    async def _apply(self, topic: str, share: Collection[MessageQueue]) -> bool:
        wanted = set(share)
        for queue in [queue for queue in self._readers if queue.topic == topic and queue not in wanted]:
            await self._lose(self._readers[queue])
        new = [queue for queue in wanted if queue not in self._readers and queue not in self._leaving]
        if new and self.locks is not None:
            new = list(await self.locks.lock(new))
        await asyncio.gather(*(self._take(queue) for queue in new))
        return all(queue in self._readers for queue in wanted)

    async def _take(self, queue: MessageQueue) -> None:
        membership = self.membership
        timestamp = membership.consume_timestamp or datetime.fromtimestamp(self.started_millis / 1000) - timedelta(
            minutes=30
        )
        try:
            offset = await start_offset(self._session, self.offsets, queue, membership.consume_from, timestamp)
        except KeroloxError as error:
            log.warning("%s is ours, and cannot be read yet: %s", queue, error)
            self._untaken = error
            return
        if self._is_wanted(queue):
            self._begin(queue, offset)

    @abstractmethod
    def _is_wanted(self, queue: MessageQueue) -> bool:
        """Whether a queue that is about to be read still shall be."""

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        log.info("group %s reads %s from offset %d", self._wrapped_group, queue, offset)
        reader = self._reader_from(queue, offset)
        self._readers[queue] = reader
        self.room = self._room(len(self._readers))
        self._taken(reader)
        reader.start()

    async def _lose(self, reader: Reader) -> None:
        """Gives a queue up; what is in hand of it comes to the next who has it."""
        log.info("group %s gives %s up", self._wrapped_group, reader.queue)
        self._readers.pop(reader.queue, None)
        reader.window.drop()
        await reader.stop()
        await self._persist([reader.queue])
        self.offsets.forget(reader.queue)
        self._start_leaving(reader)

    def _start_leaving(self, reader: Reader) -> None:
        task = asyncio.create_task(self._left(reader), name=f"give {reader.queue} up")
        self._leaving[reader.queue] = task
        task.add_done_callback(lambda done: self._leaving.pop(reader.queue, None))

    async def _left(self, reader: Reader) -> None:
        await self._lost(reader)
        if self.locks is not None:
            await self.locks.unlock([reader.queue])

    async def _move(self, reader: Reader, offset: int) -> None:
        """Goes on elsewhere in a queue: the group is told where, and then the queue is taken anew."""
        self._readers.pop(reader.queue, None)
        reader.window.drop()
        await reader.stop()
        self.offsets.set(reader.queue, offset)
        await self.offsets.persist([reader.queue], is_last=True)
        self.offsets.forget(reader.queue)
        self._start_leaving(reader)

    def _room(self, count: int) -> Room:
        """Returns how much may be in hand of each of so many queues."""
        membership = self.membership
        count_max, size_max = membership.pull_threshold_for_queue, membership.pull_threshold_size_for_queue_bytes
        if membership.pull_threshold_for_topic != -1:
            count_max = max(1, membership.pull_threshold_for_topic // count)
        if membership.pull_threshold_size_for_topic_bytes != -1:
            size_max = max(1, membership.pull_threshold_size_for_topic_bytes // count)
        return Room(count_max, size_max, self._span_max)

    @property
    def _span_max(self) -> int | None:
        return self.membership.consume_concurrently_max_span

    async def _persist(self, queues: Collection[MessageQueue] | None = None, *, is_last: bool = False) -> None:
        """Has it known how far we have come, in all queues or in some."""
        await self.offsets.persist(list(self._readers) if queues is None else queues, is_last=is_last)

    @abstractmethod
    def _reader_from(self, queue: MessageQueue, offset: int) -> Reader:
        """Returns what reads a queue from an offset on, not yet started."""

    @abstractmethod
    def _taken(self, reader: Reader) -> None:
        """A queue has become ours; messages of it will follow."""

    @abstractmethod
    async def _lost(self, reader: Reader) -> None:
        """A queue is no longer ours; returns when nobody is at work on its messages."""
