"""The queues assigned to a member of a group, and a reader for each of them."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime, timedelta

from kerolox.client.consumer.fetch.queue_reader import PullThresholds, QueueReader
from kerolox.client.consumer.group.allocation import java_order
from kerolox.client.consumer.group.consume_from import start_offset
from kerolox.client.consumer.group.offset_store import OffsetStore
from kerolox.client.consumer.group.queue_locks import QueueLocks
from kerolox.client.consumer.settings import MemberSettings
from kerolox.client.session.session import Session
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


class AssignedQueues(ABC):
    """Starts and stops the readers of assigned queues. The subclass decides which queues are assigned."""

    def __init__(self, wrapped_group: str, member_settings: MemberSettings) -> None:
        self.member_settings = member_settings
        self._wrapped_group = wrapped_group
        self._readers: dict[MessageQueue, QueueReader] = {}
        # Queues that are no longer assigned, while the handler still has messages of them.
        self._releasing: dict[MessageQueue, asyncio.Task[None]] = {}
        # Why the last queue that could not be read could not.
        self._start_error: KeroloxError | None = None
        self.started_millis = 0
        self.thresholds = self._thresholds(1)
        # Set when the member starts.
        self._session: Session
        self.offsets: OffsetStore
        self.locks: QueueLocks | None = None

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads, including those of the group's retry topic."""
        return sorted(self._readers, key=java_order)

    async def _apply_assignment(self, topic: str, assigned: Collection[MessageQueue]) -> bool:
        """Read exactly these queues of a topic; return False if not all of them can be read yet."""
        assigned = set(assigned)
        for queue in [queue for queue in self._readers if queue.topic == topic and queue not in assigned]:
            await self._remove_queue(self._readers[queue])
        new = [queue for queue in assigned if queue not in self._readers and queue not in self._releasing]
        if new and self.locks is not None:
            new = list(await self.locks.lock(new))
        await asyncio.gather(*(self._add_queue(queue) for queue in new))
        return all(queue in self._readers for queue in assigned)

    async def _add_queue(self, queue: MessageQueue) -> None:
        member_settings = self.member_settings
        timestamp = member_settings.consume_timestamp or datetime.fromtimestamp(self.started_millis / 1000) - timedelta(
            minutes=30
        )
        try:
            offset = await start_offset(self._session, self.offsets, queue, member_settings.consume_from, timestamp)
        except KeroloxError as error:
            log.warning("%s is assigned, but cannot be read yet: %s", queue, error)
            self._start_error = error
            return
        # The topic may have been unsubscribed during the await.
        if self._is_subscribed(queue):
            self._start_reader(queue, offset)

    @abstractmethod
    def _is_subscribed(self, queue: MessageQueue) -> bool:
        """Whether the topic of the queue is still subscribed or assigned."""

    def _start_reader(self, queue: MessageQueue, offset: int) -> None:
        log.info("group %s reads %s from offset %d", self._wrapped_group, queue, offset)
        reader = self._new_reader(queue, offset)
        self._readers[queue] = reader
        self.thresholds = self._thresholds(len(self._readers))
        self._queue_added(reader)
        reader.start()

    async def _remove_queue(self, reader: QueueReader) -> None:
        """Stop reading a queue; its unconsumed messages are left to the next member that reads it."""
        log.info("group %s stops reading %s", self._wrapped_group, reader.queue)
        self._readers.pop(reader.queue, None)
        reader.process_queue.drop()
        await reader.stop()
        await self._persist([reader.queue])
        self.offsets.forget(reader.queue)
        self._start_release(reader)

    def _start_release(self, reader: QueueReader) -> None:
        task = asyncio.create_task(self._release(reader), name=f"release {reader.queue}")
        self._releasing[reader.queue] = task
        task.add_done_callback(lambda done: self._releasing.pop(reader.queue, None))

    async def _release(self, reader: QueueReader) -> None:
        """Unlock the queue after the handler has finished its messages: another member may then read it."""
        await self._queue_removed(reader)
        if self.locks is not None:
            await self.locks.unlock([reader.queue])

    async def _restart_at(self, reader: QueueReader, offset: int) -> None:
        """Commit another offset and release the queue; the next rebalance starts a reader there."""
        self._readers.pop(reader.queue, None)
        reader.process_queue.drop()
        await reader.stop()
        self.offsets.set(reader.queue, offset)
        await self.offsets.persist([reader.queue], wait_for_response=True)
        self.offsets.forget(reader.queue)
        self._start_release(reader)

    def _thresholds(self, count: int) -> PullThresholds:
        """Return the flow control thresholds of each queue if this member reads `count` queues."""
        member_settings = self.member_settings
        count_max, size_max = (
            member_settings.pull_threshold_for_queue,
            member_settings.pull_threshold_size_for_queue_bytes,
        )
        if member_settings.pull_threshold_for_topic != -1:
            count_max = max(1, member_settings.pull_threshold_for_topic // count)
        if member_settings.pull_threshold_size_for_topic_bytes != -1:
            size_max = max(1, member_settings.pull_threshold_size_for_topic_bytes // count)
        return PullThresholds(count_max, size_max, self._span_max)

    @property
    def _span_max(self) -> int | None:
        return self.member_settings.consume_concurrently_max_span

    async def _persist(
        self, queues: Collection[MessageQueue] | None = None, *, wait_for_response: bool = False
    ) -> None:
        """Commit the offsets of `queues`, by default of all assigned ones."""
        await self.offsets.persist(
            list(self._readers) if queues is None else queues, wait_for_response=wait_for_response
        )

    @abstractmethod
    def _new_reader(self, queue: MessageQueue, offset: int) -> QueueReader:
        """Return a reader that is not started yet."""

    @abstractmethod
    def _queue_added(self, reader: QueueReader) -> None:
        """Prepare for the messages of a queue whose reader is about to start."""

    @abstractmethod
    async def _queue_removed(self, reader: QueueReader) -> None:
        """Return when no handler has messages of the queue any more."""
