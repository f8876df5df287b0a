"""Hands messages out: what was taken is given to a consumer when the log holds its checkpoints."""

import asyncio
import logging
from collections.abc import Callable

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.pop.checkpoints import Checkpoint, ReviveLog
from kerolox.broker.pop.counts import CHECKPOINT, PopCounts
from kerolox.broker.pop.inflight import Inflight
from kerolox.broker.pop.names import ORDER_REVIVE_QUEUE, Receipt, mark_of, normal_topic, offsets_info, start_info
from kerolox.broker.pop.progress import Progress
from kerolox.broker.pop.taking import Part, Selection, Taken, Taking, Walk
from kerolox.broker.storing import Storing, refusal
from kerolox.errors import AnswerError
from kerolox.message import names
from kerolox.message.errors import MessageIllegal
from kerolox.message.properties import find, join, mark
from kerolox.message.record import decode, encode
from kerolox.store.log.commit_log import Appended
from kerolox.wire.headers.pop import PopMessage, Popped

log = logging.getLogger(__name__)

_POP_CK = mark(names.POP_CK)


class Popping:
    def __init__(
        self,
        config: BrokerConfig,
        taking: Taking,
        storing: Storing,
        progress: Progress,
        inflight: Inflight,
        revive_log: ReviveLog,
        counts: PopCounts,
    ) -> None:
        self._config = config
        self._taking = taking
        self._storing = storing
        self._progress = progress
        self._inflight = inflight
        self._revive_log = revive_log
        self._counts = counts
        self._pops = 0
        # Told of a queue that has more to give, by the topic that consumers ask for.
        self.on_rest: Callable[[str, str, int], None] = lambda topic, group, queue_id: None

    def walk(self, request: PopMessage) -> Walk:
        """Returns the queues to look at."""
        return self._taking.walk(request)

    async def pop(self, request: PopMessage, selection: Selection, walk: Walk) -> tuple[Taken, Popped, bytes]:
        """Returns what the next queues of the walk have now, which may be nothing.

        AnswerError if there is something that cannot be had. Between looking and returning that there is nothing,
        nobody else has had a turn.
        """
        taken = self._taking.take(request, selection, walk)
        revive_queue_id = ORDER_REVIVE_QUEUE
        if not request.order:
            revive_queue_id = self._pops % self._config.revive_queue_num
            self._pops += 1
            if taken.parts:
                await self._secure(taken, request, revive_queue_id)
        answer = Popped(
            pop_time=taken.pop_time,
            invisible_time=request.invisible_time,
            revive_qid=revive_queue_id,
            rest_num=taken.rest,
            start_offset_info=";".join(
                start_info(part.topic, part.queue_id, part.start_offset) for part in taken.parts
            ),
            msg_offset_info=";".join(offsets_info(part.topic, part.queue_id, part.offsets) for part in taken.parts),
            order_count_info=";".join(taken.order_counts) if request.order else None,
        )
        body = b"".join(
            record for part in taken.parts for record in self._records(part, request, taken.pop_time, revive_queue_id)
        )
        return taken, answer, body

    async def _secure(self, taken: Taken, request: PopMessage, revive_queue_id: int) -> None:
        """Stores a checkpoint for each part; parts without one stay where they are, and are taken back."""
        securing = [_Securing(self, part) for part in taken.parts]
        for secured in securing:
            part = secured.part
            checkpoint = Checkpoint(
                broker_name=self._config.broker_name,
                group=part.group,
                diffs=[offset - part.start_offset for offset in part.offsets],
                invisible_time=request.invisible_time,
                count=len(part.offsets),
                pop_time=taken.pop_time,
                queue_id=part.queue_id,
                start_offset=part.start_offset,
                topic=part.topic,
            )
            try:
                draft = self._storing.draft(self._revive_log.checkpoint(checkpoint, revive_queue_id))
                self._storing.submit(draft, secured)
            except AnswerError as error:
                secured.refused(error)
        # Whatever becomes of the request: the checkpoints are settled by those who store them.
        await asyncio.wait([secured.done for secured in securing])
        failures = [failure for secured in securing if (failure := secured.done.result()) is not None]
        taken.parts = [secured.part for secured in securing if secured.done.result() is None]
        if failures:
            log.warning("messages of %s were not popped, for want of a checkpoint: %s", request.topic, failures[0])
            if not taken.parts:
                raise refusal(failures[0])

    def secured(self, part: Part, end_offset: int) -> None:
        self._taking.locked.discard(part.key)
        self._counts.written.add(part.topic, part.group, CHECKPOINT)
        self._progress.advance(part.group, part.topic, part.queue_id, part.next_offset, end_offset)
        if self._taking.rest(part.topic, part.group, part.queue_id):
            # Others who came meanwhile found the queue locked.
            self.on_rest(normal_topic(part.topic, part.group), part.group, part.queue_id)

    def taken_back(self, part: Part) -> None:
        self._taking.locked.discard(part.key)
        self._inflight.settled(part.topic, part.group, part.queue_id, 2**63, len(part.offsets))

    def _records(self, part: Part, request: PopMessage, pop_time: int, revive_queue_id: int) -> list[bytes]:
        if not part.is_retry or self._config.pop_response_return_actual_retry_topic:
            return part.records
        return [self._as_first(part, record, request, pop_time, revive_queue_id) for record in part.records]

    def _as_first(self, part: Part, record: bytes, request: PopMessage, pop_time: int, revive_queue_id: int) -> bytes:
        """Returns a message that comes again under the topic it came from, with its receipt."""
        message = decode(record)
        receipt = Receipt(
            part.start_offset,
            pop_time,
            request.invisible_time,
            revive_queue_id,
            mark_of(part.topic),
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
            # Its properties have no room for the receipt. Clients can make it of what the answer says.
            return record


class _Securing:
    """Who is told that a checkpoint is stored: it settles the part even if nobody waits for it any more."""

    def __init__(self, popping: Popping, part: Part) -> None:
        self._popping = popping
        self.part = part
        self.done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def stored(self, appended: Appended, is_durable: bool) -> None:
        try:
            self._popping.secured(self.part, appended.end_offset)
        finally:
            self._finish(None)

    def refused(self, error: Exception) -> None:
        try:
            self._popping.taken_back(self.part)
        finally:
            self._finish(error)

    def _finish(self, failure: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(failure)
