"""Brings messages back that were popped and not acked in time."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from time import perf_counter

import msgspec

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.groups import GroupTable
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.pop.checkpoints import Ack, Checkpoint, Key, ReviveLog
from kerolox.broker.pop.counts import ACK, CHECKPOINT, PopCounts
from kerolox.broker.pop.inflight import Inflight
from kerolox.broker.pop.names import RETRY_V1, RETRY_V2, normal_topic, retry_topic
from kerolox.broker.pop.progress import Progress
from kerolox.broker.statistics import Statistics
from kerolox.broker.system_topics import RETRY_PREFIX, REVIVE_GROUP
from kerolox.broker.topics import TopicTable
from kerolox.errors import AnswerError
from kerolox.message import names
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.hosts import Host
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark
from kerolox.message.record import PROPERTIES_SIZE_MAX, decode, decode_all
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.drafts import Drafts
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import Draft
from kerolox.store.queue.pull import GetStatus
from kerolox.store.store import Store
from kerolox.store.timer.timer import Timer

log = logging.getLogger(__name__)

# Acks of a checkpoint reach the log when its time is over, and may be late by a slot of the timer.
ACKS_LATE_MILLIS = 2000
# So many messages of the log are read before others have their turn.
_READ_MAX = 32
# And so many before checkpoints are settled.
_ROUND_MAX = 10_000
_FIRST_POP_TIME = mark(names.FIRST_POP_TIME)
_DELIVER_MS = mark(names.TIMER_DELIVER_MS)


class _Queue:
    """One queue of the revive log: how far it was read, and the checkpoints that are not settled, oldest first."""

    def __init__(self, queue_id: int, position: int) -> None:
        self.queue_id = queue_id
        self.position = position
        self.open: dict[Key, Checkpoint] = {}
        self.committed = position - 1
        # The latest time that a message which was read was due at.
        self.seen_time = 0


class Revive(Service):
    """Reads the revive log, as far as the timer has filled it, and stores again what it shows not to be acked.

    A checkpoint is settled when all acks that were accepted in its time must have been read. Where it goes on after a
    restart is committed only when what it stored is durable: a crash repeats messages, and loses none.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        progress: Progress,
        inflight: Inflight,
        revive_log: ReviveLog,
        timer: Timer,
        statistics: Statistics,
        counts: PopCounts,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._progress = progress
        self._inflight = inflight
        self._log = revive_log
        self._timer = timer
        self._statistics = statistics
        self._counts = counts
        self._clock = clock
        # Without diversions: what comes again comes at once, whatever its properties say of delays.
        self._drafts = Drafts(body_size_max=sys.maxsize)
        self.queues: list[_Queue] = []
        # Up to when all acks are in the log for readers to see; and what becomes so when the log is dispatched.
        self._horizon = 0
        self._candidate: tuple[int, int] | None = None
        self.is_working = False

    # Life

    async def open(self) -> None:
        count = max(self._config.revive_queue_num, self._topics.find(self._log.topic).read_queue_nums)
        for queue_id in range(count):
            done = self._offsets.get(REVIVE_GROUP, self._log.topic, queue_id)
            self.queues.append(_Queue(queue_id, 0 if done is None else done + 1))

    async def run(self) -> None:
        is_needed = self._store.config.timer_wheel_enable
        while True:
            await self._clock.sleep(self._config.revive_interval / 1000)
            self._progress.settle()
            if is_needed:
                await self.turn()

    async def close(self) -> None:
        """Has what was popped committed, so that a restart pops nothing twice."""
        if len(self._progress):
            await self._store.flusher.flush()
            self._progress.settle()

    @property
    def checkpoints(self) -> int:
        """How many were read and are not settled."""
        return sum(len(queue.open) for queue in self.queues)

    def behind(self) -> Iterator[tuple[int, int, int]]:
        """Yields each queue of the log with how many messages are not settled, and when the first was stored, or 0."""
        reader = self._store.reader
        for queue in self.queues:
            first = max(queue.committed + 1, reader.min_offset(self._log.topic, queue.queue_id))
            count = max(0, reader.max_offset(self._log.topic, queue.queue_id) - first)
            yield queue.queue_id, count, reader.store_time(self._log.topic, queue.queue_id, first) if count else 0

    async def turn(self) -> None:
        """Reads all queues and settles what can be; what fails is tried again in the next turn."""
        self.is_working = True
        try:
            for queue in self.queues:
                await self._work(queue)
        except (StoreError, RecordError, AnswerError, OSError) as error:
            log.warning("popped messages cannot be brought back, which is tried again: %s", error)
        finally:
            self.is_working = False

    # Reading

    def _look(self) -> None:
        """Finds out up to when the log is complete: all that is due was delivered, and readers can see it."""
        if self._candidate is None and self._timer.is_caught_up:
            self._candidate = self._timer.wheel.read_time, self._store.log.end_offset
        if self._candidate is not None and self._store.dispatcher.offset >= self._candidate[1]:
            self._horizon, self._candidate = max(self._horizon, self._candidate[0]), None

    async def _work(self, queue: _Queue) -> None:
        is_at_end = False
        while not is_at_end:
            self._look()
            horizon = self._horizon
            is_at_end = await self._read(queue)
            complete_until = horizon if is_at_end else queue.seen_time
            await self._settle(queue, complete_until)

    async def _read(self, queue: _Queue) -> bool:
        """Reads on; returns whether all was read that there is."""
        for count in range(0, _ROUND_MAX, _READ_MAX):
            got = self._store.reader.get(self._log.topic, queue.queue_id, queue.position, count_max=_READ_MAX)
            if got.status is GetStatus.FOUND:
                for message in decode_all(b"".join(got.runs)):
                    self._note(queue, message)
            if got.status is not GetStatus.FOUND and got.next_offset == queue.position:
                return True
            if got.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
                return True
            queue.position = got.next_offset
            if count:
                await asyncio.sleep(0)
        return False

    def _note(self, queue: _Queue, message: Message) -> None:
        found = self._log.decode(message)
        due = find(message.properties, _DELIVER_MS)
        if due.isdigit() and len(due) < 19:
            queue.seen_time = max(queue.seen_time, int(due))
        if found is not None:
            kind = CHECKPOINT if isinstance(found, Checkpoint) else ACK
            self._counts.read.add(found.topic, found.group, str(queue.queue_id), kind)
        if isinstance(found, Checkpoint):
            found.revive_offset = message.queue_offset
            queue.open[found.key] = found
        elif isinstance(found, Ack) and (checkpoint := queue.open.get(found.key)) is not None:
            for offset in (found.offset,) if found.offsets is None else found.offsets:
                checkpoint.ack(offset)
        elif found is None:
            log.warning("message %d of queue %d of the revive log cannot be read", message.queue_offset, queue.queue_id)

    # Settling

    async def _settle(self, queue: _Queue, complete_until: int) -> None:
        for key, checkpoint in list(queue.open.items()):
            if checkpoint.revive_time + ACKS_LATE_MILLIS >= complete_until:
                break
            if checkpoint.unacked:
                await self._revive(checkpoint)
            del queue.open[key]
        oldest = next(iter(queue.open.values()), None)
        done = (queue.position if oldest is None else oldest.revive_offset) - 1
        if done > queue.committed:
            queue.committed = done
            # When all is durable that was read and stored for it.
            end_offset = self._store.log.end_offset
            self._progress.advance(REVIVE_GROUP, self._log.topic, queue.queue_id, done, end_offset)

    async def _revive(self, checkpoint: Checkpoint) -> None:
        """Stores the messages again that were not acked."""
        topic, group = checkpoint.topic, checkpoint.group
        if self._topics.get(normal_topic(topic, group)) is None or self._groups.get(group) is None:
            log.warning("topic %s or group %s is gone; what was popped is not brought back", topic, group)
            self._inflight.revived(checkpoint, len(checkpoint.unacked))
            return
        target = topic
        if not topic.startswith(RETRY_PREFIX):
            target = retry_topic(topic, group, RETRY_V2 if self._config.enable_retry_topic_v2 else RETRY_V1)
        await self._make_topic(target, group)
        offsets = checkpoint.unacked
        drafts = [self._draft(checkpoint, offset, target) for offset in offsets]
        began = perf_counter()
        puts = [self._store.put(draft) for draft in drafts if draft is not None]
        results = iter(await asyncio.gather(*puts, return_exceptions=True))
        for offset, draft in zip(offsets, drafts, strict=True):
            result = None if draft is None else next(results)
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                place, _ = result
                seconds = perf_counter() - began
                self._statistics.put(target, 1, place.end_offset - place.physical_offset, seconds)
                self._counts.revived.add(topic, group)
            # If a later one failed, this one is not stored once more.
            checkpoint.ack(offset)
            self._inflight.revived(checkpoint)

    async def _make_topic(self, topic: str, group: str) -> None:
        if self._topics.get(topic) is None:
            self._topics.create(topic, 1)
            # Before anything is in it: of a topic that a crash forgets, nothing would ever be popped.
            await self._topics.file.save()
            if self._offsets.get(group, topic, 0) is None:
                self._offsets.commit(group, topic, 0, 0)

    def _message(self, checkpoint: Checkpoint, offset: int) -> Message | None:
        got = self._store.reader.get(checkpoint.topic, checkpoint.queue_id, offset, count_max=1)
        if got.status is not GetStatus.FOUND:
            return None
        message = decode(got.records[0])
        return message if message.queue_offset == offset else None

    def _draft(self, checkpoint: Checkpoint, offset: int, topic: str) -> Draft | None:
        """Returns what is stored instead of a message; None if it is gone, or cannot be stored ever again."""
        message = self._message(checkpoint, offset)
        if message is None:
            return None
        host: Host = self._log.host()
        again = msgspec.structs.replace(
            message,
            topic=topic,
            queue_id=0,
            born_host=host,
            store_host=host,
            reconsume_times=message.reconsume_times + (not checkpoint.is_suspended),
            prepared_transaction_offset=0,
        )
        is_timed = message.reconsume_times > 0 and find(message.properties, _FIRST_POP_TIME)
        try:
            if not is_timed:
                again.properties = join(message.properties, _FIRST_POP_TIME + b"%d\x02" % checkpoint.pop_time)
            if len(again.properties) > PROPERTIES_SIZE_MAX:
                again.properties = message.properties
            return self._drafts.one(again)
        except MessageIllegal as error:
            log.error("message %d of %s, queue %d, is lost: %s", offset, topic, checkpoint.queue_id, error)
            return None
