"""Popping messages: they are returned to a consumer once the log holds their checkpoints (PopMessageProcessor)."""

import asyncio
import logging
from collections.abc import Callable

from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.checkpoints import Checkpoint
from kerolox.broker.pop.metrics import CHECKPOINT
from kerolox.broker.pop.parts import PopParts
from kerolox.broker.pop.receipt_handle import (
    ORDER_REVIVE_QUEUE,
    ReceiptHandle,
    mark_of,
    normal_topic,
    offsets_info,
    start_info,
)
from kerolox.broker.pop.take import PoppedBatch, PopResult, PopTake, QueueScan
from kerolox.broker.pull.message_filter import MessageFilter
from kerolox.broker.send.put import refusal
from kerolox.errors import AnswerError
from kerolox.message import property_names
from kerolox.message.errors import MessageIllegal
from kerolox.message.properties import find, join, mark
from kerolox.message.records.record import decode, encode
from kerolox.store.log.commit_log import Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.wire.headers.pop import PopMessage, Popped

log = logging.getLogger(__name__)

_POP_CK = mark(property_names.POP_CK)


class PopService:
    """Takes messages for a group and returns them once their checkpoints are in the log.

    `on_messages_left` is called with topic, group and queue when a queue that was locked has more messages to give.
    """

    def __init__(
        self,
        parts: BrokerParts,
        pop: PopParts,
        take: PopTake,
        *,
        on_messages_left: Callable[[str, str, int], None],
    ) -> None:
        self._config = parts.config
        self._message_put = parts.message_put
        self._pop_offsets = pop.offsets
        self._in_flight = pop.in_flight
        self._revive_log = pop.revive_log
        self._metrics = pop.metrics
        self._take = take
        self._on_messages_left = on_messages_left
        self._pop_count = 0

    def scan(self, request: PopMessage) -> QueueScan:
        """Return the queues to look at."""
        return self._take.scan(request)

    async def pop(
        self, request: PopMessage, message_filter: MessageFilter, scan: QueueScan
    ) -> tuple[PopResult, Popped, bytes]:
        """Return the messages that the next queues of the scan have now, possibly none.

        AnswerError if there are messages but no checkpoint could be stored. When nothing is found, this does not
        suspend, so that the caller can start waiting without missing a message; unless messages were read from disk,
        and then `is_cut_short` is set.
        """
        result = await self._take.take(request, message_filter, scan)
        revive_queue_id = ORDER_REVIVE_QUEUE
        if not request.order:
            revive_queue_id = self._pop_count % self._config.revive_queue_num
            self._pop_count += 1
            if result.batches:
                await self._store_checkpoints(result, request, revive_queue_id)
        response = Popped(
            pop_time=result.pop_time,
            invisible_time=request.invisible_time,
            revive_qid=revive_queue_id,
            rest_num=result.remaining,
            start_offset_info=";".join(
                start_info(batch.topic, batch.queue_id, batch.start_offset) for batch in result.batches
            ),
            msg_offset_info=";".join(
                offsets_info(batch.topic, batch.queue_id, batch.offsets) for batch in result.batches
            ),
            order_count_info=";".join(result.order_counts) if request.order else None,
        )
        body = b"".join(
            record
            for batch in result.batches
            for record in self._records(batch, request, result.pop_time, revive_queue_id)
        )
        return result, response, body

    async def _store_checkpoints(self, result: PopResult, request: PopMessage, revive_queue_id: int) -> None:
        """Store a checkpoint for each batch; drop the batches for which that fails, their offsets do not advance."""
        pending = [_PendingCheckpoint(self, batch) for batch in result.batches]
        for checkpointed in pending:
            batch = checkpointed.batch
            checkpoint = Checkpoint(
                broker_name=self._config.broker_name,
                group=batch.group,
                diffs=[offset - batch.start_offset for offset in batch.offsets],
                invisible_time=request.invisible_time,
                count=len(batch.offsets),
                pop_time=result.pop_time,
                queue_id=batch.queue_id,
                start_offset=batch.start_offset,
                topic=batch.topic,
            )
            try:
                append = self._message_put.draft(self._revive_log.checkpoint(checkpoint, revive_queue_id))
                self._message_put.submit(append, checkpointed)
            except AnswerError as error:
                checkpointed.refused(error)
        # If this task is cancelled here, the store still calls `stored` or `refused`, which unlock the queues.
        await asyncio.wait([checkpointed.done for checkpointed in pending])
        failures = [failure for checkpointed in pending if (failure := checkpointed.done.result()) is not None]
        result.batches = [checkpointed.batch for checkpointed in pending if checkpointed.done.result() is None]
        if failures:
            log.warning("messages of %s were not popped: no checkpoint could be stored: %s", request.topic, failures[0])
            if not result.batches:
                raise refusal(failures[0])

    def checkpoint_stored(self, batch: PoppedBatch, checkpoint: Appended) -> None:
        self._take.locked.pop(batch.key, None)
        self._metrics.written.add(batch.topic, batch.group, CHECKPOINT)
        self._pop_offsets.advance(
            batch.group,
            batch.topic,
            batch.queue_id,
            batch.next_offset,
            checkpoint.end_offset,
            checkpoint.physical_offset,
        )
        if self._take.remaining(batch.topic, batch.group, batch.queue_id):
            # Requests that came meanwhile found the queue locked.
            self._on_messages_left(normal_topic(batch.topic, batch.group), batch.group, batch.queue_id)

    def checkpoint_failed(self, batch: PoppedBatch) -> None:
        self._take.locked.pop(batch.key, None)
        self._in_flight.settled(batch.topic, batch.group, batch.queue_id, 2**63, len(batch.offsets))

    def _records(self, batch: PoppedBatch, request: PopMessage, pop_time: int, revive_queue_id: int) -> list[bytes]:
        if not batch.is_retry or self._config.pop_response_return_actual_retry_topic:
            return batch.records
        return [
            self._with_requested_topic(batch, record, request, pop_time, revive_queue_id) for record in batch.records
        ]

    def _with_requested_topic(
        self, batch: PoppedBatch, record: bytes, request: PopMessage, pop_time: int, revive_queue_id: int
    ) -> bytes:
        """Return a retried message under the topic it was first sent to, with its receipt handle."""
        message = decode(record)
        receipt = ReceiptHandle(
            batch.start_offset,
            pop_time,
            request.invisible_time,
            revive_queue_id,
            mark_of(batch.topic),
            self._config.broker_name,
            message.queue_id,
            message.queue_offset,
        )
        message.topic = request.topic
        if not find(message.properties, _POP_CK):
            message.properties = join(message.properties, _POP_CK + str(receipt).encode() + b"\x02")
        try:
            return bytes(encode(message))
        except MessageIllegal:
            # The properties have no room for the receipt; clients can build it from the fields of the response.
            return record


class _PendingCheckpoint:
    """Waits for a checkpoint to be stored, and unlocks its queue even if the request was cancelled meanwhile."""

    def __init__(self, service: PopService, batch: PoppedBatch) -> None:
        self._service = service
        self.batch = batch
        # The error, or None when the checkpoint is stored.
        self.done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def stored(self, appended: Appended, status: AckStatus) -> None:
        try:
            self._service.checkpoint_stored(self.batch, appended)
        finally:
            self._finish(None)

    def refused(self, error: Exception) -> None:
        try:
            self._service.checkpoint_failed(self.batch)
        finally:
            self._finish(error)

    def _finish(self, failure: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(failure)
