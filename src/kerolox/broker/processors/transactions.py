"""Ends transactions: a half message is committed or rolled back."""

import asyncio
from time import perf_counter

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import IllegalOperation, ServiceNotAvailable
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing, refusal
from kerolox.broker.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC
from kerolox.broker.transactions import half as halves
from kerolox.broker.transactions.transactions import Transactions
from kerolox.errors import AnswerError, KeroloxError, SystemFailure
from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.record import decode
from kerolox.remoting.routes import Answering, Incoming, Later, handles
from kerolox.runtime.clock import Clock
from kerolox.runtime.lanes import Lane
from kerolox.store.log.commit_log import Appended
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import ResumeCheckHalfMessage
from kerolox.wire.headers.messages import EndTransaction
from kerolox.wire.reply import Reply

_RESUME_FAILED = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."


class TransactionProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        transactions: Transactions,
        storing: Storing,
        lane: Lane,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._config = config
        self._transactions = transactions
        self._storing = storing
        # Messages that are being committed.
        self._lane = lane
        self._clock = clock
        self._statistics = statistics
        self._under_way: dict[int, _Committing] = {}

    @handles(EndTransaction, lane="endTransaction")
    def end(self, request: Incoming[EndTransaction]) -> Answering[Empty]:
        header = request.header
        if header.commit_or_rollback not in (sysflag.COMMIT, sysflag.ROLLBACK):
            # Who does not know gets no answer, as in the original, and will be asked.
            return Later(request)
        half = self._half(header)
        if self._transactions.ops.is_full:
            raise ServiceNotAvailable("the ends of too many transactions could not be written")
        if header.commit_or_rollback == sysflag.COMMIT:
            return self._commit(request, half)
        self._transactions.finish(half)
        self._transactions.counts.rolled_back.add(halves.topic_of(half))
        return Reply()

    def _half(self, header: EndTransaction) -> Message:
        """Returns the half message that a request is for; AnswerError, in the original's words, if it is not right."""
        half = self._transactions.find(header.tran_state_table_offset, header.commit_log_offset)
        if half is None:
            raise SystemFailure("Find prepared transaction message failed")
        if not header.from_transaction_check and self._is_late(half):
            raise IllegalOperation("the time for this has passed: the producer will be asked")
        if halves.producer_group(half) != header.producer_group:
            raise SystemFailure("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise SystemFailure("The transaction state table offset wrong")
        return half

    def _is_late(self, half: Message) -> bool:
        """Whether its producer has set a time, and is asked instead since that is over."""
        seconds = halves.immunity_seconds(half)
        if seconds is None:
            return False
        immunity = max(seconds * 1000, self._config.transaction_time_out)
        return self._clock.millis() - half.born_timestamp > immunity

    def _commit(self, request: Incoming[EndTransaction], half: Message) -> Answering[Empty]:
        transactions, under_way = self._transactions, self._under_way.get(half.queue_offset)
        self._lane.check()
        later: Later[Empty] = Later(request)
        if under_way is not None:
            under_way.add(later)
            return later
        committing = _Committing(self, half)
        if transactions.is_doubtful(half, is_asked=bool(request.header.from_transaction_check)):
            request.connection.carry(self._commit_unless_done(half, committing))
        else:
            self._submit(half, committing)
        committing.add(later)
        self._under_way[half.queue_offset] = committing
        return later

    async def _commit_unless_done(self, half: Message, committing: "_Committing") -> None:
        try:
            if await self._transactions.is_committed(half):
                committing.done()
            else:
                self._submit(half, committing)
        except Exception as error:
            committing.refused(error)
        except asyncio.CancelledError:
            committing.refused(ServiceNotAvailable("the connection ended before it was known whether this was done"))
            raise

    def _submit(self, half: Message, committing: "_Committing") -> None:
        draft = self._storing.draft(halves.committed(half))
        committing.topic = draft.topic
        self._storing.submit(draft, committing)

    def done(self, half: Message, waiting: list[Later[Empty]]) -> None:
        """Answers those who ask for what was committed before."""
        self._transactions.finish(half)
        self._left(half, waiting, Reply())

    def committed(
        self, half: Message, topic: str, appended: Appended, seconds: float, waiting: list[Later[Empty]]
    ) -> None:
        self._statistics.put(topic, 1, appended.end_offset - appended.physical_offset, seconds)
        counts = self._transactions.counts
        counts.committed.add(topic)
        counts.seconds.add((self._clock.millis() - half.born_timestamp) / 1000, topic)
        self._transactions.finish(half)
        self._left(half, waiting, Reply())

    def refused(self, half: Message, waiting: list[Later[Empty]], error: AnswerError) -> None:
        self._left(half, waiting, Reply(code=int(error.code), remark=error.remark))

    def entered(self) -> None:
        self._lane.enter()

    def _left(self, half: Message, waiting: list[Later[Empty]], reply: Reply[Empty]) -> None:
        del self._under_way[half.queue_offset]
        self._lane.under_way -= len(waiting)
        for later in waiting:
            later.answer(reply)

    @handles(ResumeCheckHalfMessage)
    async def resume(self, request: Incoming[ResumeCheckHalfMessage]) -> Reply[Empty]:
        """Puts a half message back that was put aside, as if its producer had never been asked."""
        try:
            record = self._storing.store.reader.record_of_id(request.header.msg_id or "")
            half = None if record is None else decode(record)
        except KeroloxError as error:
            raise SystemFailure(_RESUME_FAILED) from error
        if half is None or half.topic not in (CHECK_MAX_TOPIC, HALF_TOPIC):
            raise SystemFailure(_RESUME_FAILED)
        await self._storing.put_draft(halves.draft_of(halves.again(half, 0)))
        return Reply()


class _Committing:
    """Those who wait until a message is committed."""

    __slots__ = ("_began", "_half", "_processor", "_waiting", "topic")

    def __init__(self, processor: TransactionProcessor, half: Message) -> None:
        self._processor = processor
        self._half = half
        self.topic = ""
        self._began = perf_counter()
        self._waiting: list[Later[Empty]] = []

    def add(self, later: Later[Empty]) -> None:
        self._processor.entered()
        self._waiting.append(later)

    def stored(self, appended: Appended, is_durable: bool) -> None:
        seconds = perf_counter() - self._began
        self._processor.committed(self._half, self.topic, appended, seconds, self._waiting)

    def done(self) -> None:
        self._processor.done(self._half, self._waiting)

    def refused(self, error: Exception) -> None:
        self._processor.refused(self._half, self._waiting, refusal(error))
