"""Reviving popped messages that were not acknowledged in time (PopReviveService)."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from time import perf_counter

import msgspec

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.checkpoints import Ack, Checkpoint, Key
from kerolox.broker.pop.metrics import ACK, CHECKPOINT
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.receipt_handle import RETRY_V1, RETRY_V2, normal_topic, retry_topic
from kerolox.broker.pop.recovery import PopRecovery
from kerolox.broker.tables.system_topics import RETRY_PREFIX, REVIVE_GROUP
from kerolox.errors import AnswerError
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.hosts import Host
from kerolox.message.message import Message
from kerolox.message.properties import find, join, mark
from kerolox.message.records.record import PROPERTIES_SIZE_MAX, decode, decode_all
from kerolox.runtime.service import Service
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import Append
from kerolox.store.message_encoder import MessageEncoder
from kerolox.store.queue.lookup import GetStatus

log = logging.getLogger(__name__)

# The timer delivers acks when the messages would become visible, late by up to a slot of its wheel.
ACKS_LATE_MILLIS = 2000
# Messages of the revive log read without yielding to other tasks, and before checkpoints are settled.
_READ_MAX = 32
_ROUND_MAX = 10_000
_FIRST_POP_TIME = mark(property_names.FIRST_POP_TIME)
_DELIVER_MS = mark(property_names.TIMER_DELIVER_MS)


class _ReviveQueue:
    """One queue of the revive log: the next offset to read, and the open checkpoints, oldest first."""

    def __init__(self, queue_id: int, next_offset: int) -> None:
        self.queue_id = queue_id
        self.next_offset = next_offset
        self.open: dict[Key, Checkpoint] = {}
        # When each is settled, provided that all acks accepted until then have been read.
        self.settle_times: dict[Key, int] = {}
        # The last offset before which no checkpoint is open.
        self.committed = next_offset - 1
        # Delivery time of the message that was read last.
        self.last_delivery_time = 0


class ReviveService(Service):
    """Reads the revive log, as far as the timer has filled it, and stores messages without an ack again.

    A checkpoint is settled when all acks that were accepted in time must have been read. The progress is committed
    only when the stored messages are durable: a crash may repeat messages, but loses none.
    """

    def __init__(self, parts: BrokerParts, pop: PopParts, recovery: PopRecovery) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._timer = parts.timer
        self._statistics = parts.statistics
        self._clock = parts.clock
        self._pop_offsets = pop.offsets
        self._in_flight = pop.in_flight
        self._log = pop.revive_log
        self._metrics = pop.metrics
        self._recovery = recovery
        # Without delays and timers: a revived message is visible at once, whatever its properties say.
        self._encoder = MessageEncoder(body_size_max=sys.maxsize)
        self.queues: list[_ReviveQueue] = []
        # Delivery time up to which all acks are readable in the log.
        self._complete_until = 0
        # (time, physical offset): `_complete_until` becomes the time when the log is dispatched up to the offset.
        self._candidate: tuple[int, int] | None = None
        self.is_working = False
        # Messages were stored again since the table of offsets was saved.
        self._has_revived = False

    async def open(self) -> None:
        """Continue from the committed offsets, and recover pops that only the log has."""
        await self._recover()
        count = max(self._config.revive_queue_num, self._topics.find(self._log.topic).read_queue_nums)
        for queue_id in range(count):
            done = self._offsets.get(REVIVE_GROUP, self._log.topic, queue_id)
            self.queues.append(_ReviveQueue(queue_id, 0 if done is None else done + 1))

    async def _recover(self) -> None:
        position, end_offset = self._offsets.pop_position, self._store.log.end_offset
        is_known = position is not None and position <= end_offset
        if position is not None and is_known and self._store.config.timer_wheel_enable:
            count = self._recovery.recover(position)
            if not count or self._pop_offsets.has_recovered:
                # The saved position is still before these checkpoints, so another crash can recover them again.
                return
        # Save the present position, from which the recovery after a crash starts.
        self._offsets.file.changed()
        await self._offsets.file.try_to_save()

    async def run(self) -> None:
        is_needed = self._store.config.timer_wheel_enable
        while True:
            await self._clock.sleep(self._config.revive_interval / 1000)
            self._pop_offsets.settle()
            if is_needed:
                await self.turn()

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that were read and are not settled."""
        return sum(len(queue.open) for queue in self.queues)

    def behind(self) -> Iterator[tuple[int, int, int]]:
        """Yield for each queue of the log its number, its unsettled messages, and when the first was stored, or 0."""
        reader = self._store.reader
        for queue in self.queues:
            first = max(queue.committed + 1, reader.min_offset(self._log.topic, queue.queue_id))
            count = max(0, reader.max_offset(self._log.topic, queue.queue_id) - first)
            yield queue.queue_id, count, reader.store_time(self._log.topic, queue.queue_id, first) if count else 0

    async def turn(self) -> None:
        """Read all queues and settle the checkpoints that are due; a failure is retried in the next turn."""
        self.is_working = True
        try:
            for queue in self.queues:
                await self._work(queue)
            if self._has_revived:
                # Save the progress early: a crash would revive the same messages again.
                self._has_revived = False
                await self._offsets.file.save_early()
        except (StoreError, RecordError, AnswerError, OSError) as error:
            log.warning("popped messages could not be revived, will retry: %s", error)
        finally:
            self.is_working = False

    # Reading

    def _update_complete_until(self) -> None:
        """Find the time up to which the timer has delivered all acks, and readers can see them."""
        read_time = self._timer.wheel.read_time
        if read_time < max(self._complete_until, self._candidate[0] if self._candidate is not None else 0):
            # The clock was set back, and the timer has followed it.
            self._complete_until, self._candidate = min(self._complete_until, read_time), None
            for queue in self.queues:
                for checkpoint in queue.open.values():
                    self._schedule(queue, checkpoint)
        if self._candidate is None and self._timer.is_caught_up:
            self._candidate = self._timer.wheel.read_time, self._store.log.end_offset
        if self._candidate is not None and self._store.dispatcher.offset >= self._candidate[1]:
            self._complete_until, self._candidate = max(self._complete_until, self._candidate[0]), None

    async def _work(self, queue: _ReviveQueue) -> None:
        is_at_end = False
        while not is_at_end:
            self._update_complete_until()
            # Taken before reading: acks that become readable meanwhile may be missed.
            complete_until = self._complete_until
            is_at_end = await self._read(queue)
            await self._settle(queue, complete_until if is_at_end else queue.last_delivery_time)

    async def _read(self, queue: _ReviveQueue) -> bool:
        """Read up to `_ROUND_MAX` messages; return whether the end of the queue was reached."""
        for count in range(0, _ROUND_MAX, _READ_MAX):
            got = self._store.reader.get(self._log.topic, queue.queue_id, queue.next_offset, count_max=_READ_MAX)
            if got.status is GetStatus.FOUND:
                for message in decode_all(b"".join(got.runs)):
                    self._add(queue, message)
            if got.status is not GetStatus.FOUND and got.next_offset == queue.next_offset:
                return True
            if got.status in (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE):
                return True
            queue.next_offset = got.next_offset
            if count:
                await asyncio.sleep(0)
        return False

    def _add(self, queue: _ReviveQueue, message: Message) -> None:
        record = self._log.decode(message)
        due = find(message.properties, _DELIVER_MS)
        if due.isdigit() and len(due) < 19:
            queue.last_delivery_time = int(due)
        if record is not None:
            kind = CHECKPOINT if isinstance(record, Checkpoint) else ACK
            self._metrics.read.add(record.topic, record.group, str(queue.queue_id), kind)
        if isinstance(record, Checkpoint):
            record.revive_offset = message.queue_offset
            queue.open[record.key] = record
            self._schedule(queue, record)
        elif isinstance(record, Ack) and (checkpoint := queue.open.get(record.key)) is not None:
            for offset in (record.offset,) if record.offsets is None else record.offsets:
                checkpoint.ack(offset)
        elif record is None:
            log.warning(
                "message %d in queue %d of the revive log cannot be decoded", message.queue_offset, queue.queue_id
            )

    # Settling

    def _schedule(self, queue: _ReviveQueue, checkpoint: Checkpoint) -> None:
        """Set when a checkpoint is settled: never later than if its messages had been popped now.

        The pop time is in the future if the clock was set back since.
        """
        latest = self._clock.millis() + checkpoint.invisible_time
        queue.settle_times[checkpoint.key] = min(checkpoint.revive_time, latest)

    async def _settle(self, queue: _ReviveQueue, complete_until: int) -> None:
        for key, checkpoint in list(queue.open.items()):
            if queue.settle_times[key] + ACKS_LATE_MILLIS >= complete_until:
                break
            if checkpoint.unacked:
                await self._revive(checkpoint)
            del queue.open[key], queue.settle_times[key]
        oldest = next(iter(queue.open.values()), None)
        done = (queue.next_offset if oldest is None else oldest.revive_offset) - 1
        if done > queue.committed:
            queue.committed = done
            # Committed when the messages stored for it are durable.
            end_offset = self._store.log.end_offset
            self._pop_offsets.advance(REVIVE_GROUP, self._log.topic, queue.queue_id, done, end_offset)

    async def _revive(self, checkpoint: Checkpoint) -> None:
        """Store the messages that were not acknowledged in the retry topic of the group."""
        topic, group = checkpoint.topic, checkpoint.group
        if self._topics.get(normal_topic(topic, group)) is None or self._groups.get(group) is None:
            log.warning("popped messages are not revived: topic %s or group %s does not exist", topic, group)
            self._in_flight.revived(checkpoint, len(checkpoint.unacked))
            return
        target = topic
        if not topic.startswith(RETRY_PREFIX):
            target = retry_topic(topic, group, RETRY_V2 if self._config.enable_retry_topic_v2 else RETRY_V1)
        await self._create_topic(target, group)
        offsets = checkpoint.unacked
        appends = [self._revived(checkpoint, offset, target) for offset in offsets]
        began = perf_counter()
        puts = [self._store.put(append) for append in appends if append is not None]
        results = iter(await asyncio.gather(*puts, return_exceptions=True))
        for offset, append in zip(offsets, appends, strict=True):
            result = None if append is None else next(results)
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                appended, _ = result
                seconds = perf_counter() - began
                self._statistics.put(target, 1, appended.end_offset - appended.physical_offset, seconds)
                self._metrics.revived.add(topic, group)
                self._has_revived = True
            # If a later one fails, the retry does not store this one again.
            checkpoint.ack(offset)
            self._in_flight.revived(checkpoint)

    async def _create_topic(self, topic: str, group: str) -> None:
        if self._topics.get(topic) is None:
            self._topics.create(topic, 1)
            # Saved before it has messages: after a crash without the topic they would never be popped.
            await self._topics.file.save()
            if self._offsets.get(group, topic, 0) is None:
                self._offsets.commit(group, topic, 0, 0)

    def _message(self, checkpoint: Checkpoint, offset: int) -> Message | None:
        got = self._store.reader.get(checkpoint.topic, checkpoint.queue_id, offset, count_max=1)
        if got.status is not GetStatus.FOUND:
            return None
        message = decode(got.records[0])
        return message if message.queue_offset == offset else None

    def _revived(self, checkpoint: Checkpoint, offset: int, topic: str) -> Append | None:
        """Return the copy of a message for its retry topic; None if it is deleted, or too large to be stored."""
        message = self._message(checkpoint, offset)
        if message is None:
            return None
        host: Host = self._log.host()
        revived = msgspec.structs.replace(
            message,
            topic=topic,
            queue_id=0,
            born_host=host,
            store_host=host,
            reconsume_times=message.reconsume_times + (not checkpoint.is_suspended),
            prepared_transaction_offset=0,
        )
        has_first_pop_time = message.reconsume_times > 0 and find(message.properties, _FIRST_POP_TIME)
        try:
            if not has_first_pop_time:
                revived.properties = join(message.properties, _FIRST_POP_TIME + b"%d\x02" % checkpoint.pop_time)
            if len(revived.properties) > PROPERTIES_SIZE_MAX:
                revived.properties = message.properties
            return self._encoder.encode(revived)
        except MessageIllegal as error:
            log.error("message %d in queue %d of %s is lost: %s", offset, checkpoint.queue_id, checkpoint.topic, error)
            return None
