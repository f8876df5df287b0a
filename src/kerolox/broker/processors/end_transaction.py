"""Commit and rollback of transactions (EndTransactionProcessor)."""

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter

from kerolox.broker.errors import IllegalOperation, InvalidParameter, ServiceNotAvailable
from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.put import refusal
from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC
from kerolox.broker.transactions import half_queue
from kerolox.broker.transactions.service import TransactionService
from kerolox.errors import AnswerError, KeroloxError, SystemFailure
from kerolox.message import sysflag
from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.remoting.router import Answering, Incoming, Later, handles
from kerolox.store.log.commit_log import Appended
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.log.segments import NotInMemory
from kerolox.wire.header import Empty
from kerolox.wire.headers.broker import ResumeCheckHalfMessage
from kerolox.wire.headers.messages import EndTransaction
from kerolox.wire.reply import Reply

_RESUME_FAILED = "Exception was thrown when putting message back to RMQ_SYS_TRANS_HALF_TOPIC."


class EndTransactionProcessor:
    def __init__(self, parts: BrokerParts, transactions: TransactionService) -> None:
        self._config = parts.config
        self._transactions = transactions
        self._message_put = parts.message_put
        # Counts the requests that wait for a commit.
        self._request_queue = parts.request_queues["endTransaction"]
        self._clock = parts.clock
        self._statistics = parts.statistics
        # By the queue offset of the half message.
        self._pending: dict[int, _PendingCommit] = {}

    @handles(EndTransaction, request_queue="endTransaction")
    def end(self, request: Incoming[EndTransaction]) -> Answering[Empty]:
        header = request.header
        # Java answers neither of these two (EndTransactionProcessor returns null); a caller that waits would hang.
        if header.commit_or_rollback == sysflag.NOT_TRANSACTION:
            # The producer does not know the outcome yet, and will be asked later.
            return Reply()
        if header.commit_or_rollback not in (sysflag.COMMIT, sysflag.ROLLBACK):
            raise InvalidParameter(
                f"commitOrRollback {header.commit_or_rollback} is not 0 (unknown), {sysflag.COMMIT} (commit) or "
                f"{sysflag.ROLLBACK} (rollback)"
            )
        find = partial(self._transactions.find, header.tran_state_table_offset, header.commit_log_offset)
        try:
            half = self._message_put.store.cold_reads.in_memory(find)
        except NotInMemory as missing:
            return self._end_from_disk(request, find, missing)
        return self._end(request, half)

    async def _end_from_disk(
        self, request: Incoming[EndTransaction], find: Callable[[], Message | None], missing: NotInMemory
    ) -> Reply[Empty] | Later[Empty]:
        return self._end(request, await self._message_put.store.cold_reads.read(find, missing))

    def _end(self, request: Incoming[EndTransaction], half: Message | None) -> Reply[Empty] | Later[Empty]:
        header = request.header
        half = self._checked(header, half)
        if self._transactions.op_queue.is_full:
            raise ServiceNotAvailable("too many transaction ops could not be written")
        if header.commit_or_rollback == sysflag.COMMIT:
            return self._commit(request, half)
        self._transactions.resolve(half)
        self._transactions.metrics.rolled_back.add(half_queue.topic_of(half))
        return Reply()

    def _checked(self, header: EndTransaction, half: Message | None) -> Message:
        """Return the half message of a request; AnswerError, with Java's remarks, if the request does not match it."""
        if half is None:
            raise SystemFailure("Find prepared transaction message failed")
        if not header.from_transaction_check and self._is_immunity_over(half):
            raise IllegalOperation("the immunity time of the half message is over: wait for the transaction check")
        if half_queue.producer_group(half) != header.producer_group:
            raise SystemFailure("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise SystemFailure("The transaction state table offset wrong")
        return half

    def _is_immunity_over(self, half: Message) -> bool:
        """Whether the producer set an immunity time that has passed; then only the answer to a check counts."""
        seconds = half_queue.immunity_seconds(half)
        if seconds is None:
            return False
        immunity = max(seconds * 1000, self._config.transaction_time_out)
        return self._clock.millis() - half.born_timestamp > immunity

    def _commit(self, request: Incoming[EndTransaction], half: Message) -> Later[Empty]:
        transactions, pending = self._transactions, self._pending.get(half.queue_offset)
        self._request_queue.check()
        later: Later[Empty] = Later(request)
        if pending is not None:
            pending.add(later)
            return later
        commit = _PendingCommit(self, half)
        if transactions.may_be_committed(half, is_checked=bool(request.header.from_transaction_check)):
            request.connection.carry(self._commit_unless_committed(half, commit))
        else:
            self._submit(half, commit)
        commit.add(later)
        self._pending[half.queue_offset] = commit
        return later

    async def _commit_unless_committed(self, half: Message, commit: "_PendingCommit") -> None:
        try:
            if await self._transactions.is_committed(half):
                commit.was_committed()
            else:
                self._submit(half, commit)
        except Exception as error:
            commit.refused(error)
        except asyncio.CancelledError:
            commit.refused(ServiceNotAvailable("the connection closed before the transaction was committed"))
            raise

    def _submit(self, half: Message, commit: "_PendingCommit") -> None:
        append = self._message_put.draft(half_queue.committed(half))
        commit.topic = append.topic
        self._message_put.submit(append, commit)

    def was_committed(self, half: Message, waiting: list[Later[Empty]]) -> None:
        """Respond to requests for a message that was committed before."""
        self._transactions.resolve(half)
        self._respond(half, waiting, Reply())

    def committed(
        self, half: Message, topic: str, appended: Appended, seconds: float, waiting: list[Later[Empty]]
    ) -> None:
        self._statistics.put(topic, 1, appended.end_offset - appended.physical_offset, seconds)
        metrics = self._transactions.metrics
        metrics.committed.add(topic)
        metrics.seconds.add((self._clock.millis() - half.born_timestamp) / 1000, topic)
        self._transactions.resolve(half)
        self._respond(half, waiting, Reply())

    def refused(self, half: Message, waiting: list[Later[Empty]], error: AnswerError) -> None:
        self._respond(half, waiting, Reply(code=int(error.code), remark=error.remark))

    def add_waiting(self) -> None:
        self._request_queue.enter()

    def _respond(self, half: Message, waiting: list[Later[Empty]], reply: Reply[Empty]) -> None:
        del self._pending[half.queue_offset]
        self._request_queue.under_way -= len(waiting)
        for later in waiting:
            later.answer(reply)

    @handles(ResumeCheckHalfMessage)
    async def resume(self, request: Incoming[ResumeCheckHalfMessage]) -> Reply[Empty]:
        """Put a half message back from TRANS_CHECK_MAX_TIME_TOPIC, with its check count set to 0."""
        try:
            record = await self._message_put.store.lookup.record_of_id(request.header.msg_id or "")
            half = None if record is None else decode(record)
        except KeroloxError as error:
            raise SystemFailure(_RESUME_FAILED) from error
        if half is None or half.topic not in (CHECK_MAX_TOPIC, HALF_TOPIC):
            raise SystemFailure(_RESUME_FAILED)
        await self._message_put.put_draft(half_queue.append_of(half_queue.with_check_times(half, 0)))
        return Reply()


class _PendingCommit:
    """Requests that wait until a message is committed; a repeated request joins the first one."""

    __slots__ = ("_began", "_half", "_processor", "_waiting", "topic")

    def __init__(self, processor: EndTransactionProcessor, half: Message) -> None:
        self._processor = processor
        self._half = half
        self.topic = ""
        self._began = perf_counter()
        self._waiting: list[Later[Empty]] = []

    def add(self, later: Later[Empty]) -> None:
        self._processor.add_waiting()
        self._waiting.append(later)

    def stored(self, appended: Appended, status: AckStatus) -> None:
        seconds = perf_counter() - self._began
        self._processor.committed(self._half, self.topic, appended, seconds, self._waiting)

    def was_committed(self) -> None:
        self._processor.was_committed(self._half, self._waiting)

    def refused(self, error: Exception) -> None:
        self._processor.refused(self._half, self._waiting, refusal(error))
