"""Checks of half messages that are undecided for too long (TransactionalMessageCheckService)."""

import asyncio
import logging
from enum import Enum
from itertools import count, islice
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kerolox.broker.config import BrokerConfig
from kerolox.broker.parts import BrokerParts
from kerolox.broker.tables.client_registry import ClientRegistry
from kerolox.broker.tables.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from kerolox.broker.transactions import half_queue
from kerolox.broker.transactions.half_queue import QUEUE_ID
from kerolox.broker.transactions.op_queue import half_offsets
from kerolox.broker.transactions.resolved import OpProgress, ResolvedHalves
from kerolox.errors import KeroloxError
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.ids import offset_id
from kerolox.message.message import Message
from kerolox.message.records.record import decode, encode
from kerolox.store.config import FlushDiskType
from kerolox.store.errors import StoreFull
from kerolox.store.log.commit_log import Append, Appended
from kerolox.store.queue.lookup import GetResult
from kerolox.wire.headers.messages import CheckTransactionState

log = logging.getLogger(__name__)

# Work done without yielding to other tasks.
_READ_COUNT = 32
_READ_SIZE = 1024 * 1024
_PASSED_MAX = 10_000
# A round that takes longer stops, and the next one continues there.
_ROUND_SECONDS = 60.0
_HOUR_MILLIS = 3_600_000
# Producers that are tried before a half message waits for the next round.
_PRODUCERS_MAX = 3


class Verdict(Enum):
    """The decision about a half message that the check has reached."""

    RESOLVED = "it was committed or rolled back"
    WAIT = "it is too young, as are all behind it: the round ends here"
    POSTPONE = "its immunity time is not over: put it back"
    CHECK = "put it back and ask its producer"
    DISCARD = "move it to TRANS_CHECK_MAX_TIME_TOPIC"


class _Step(msgspec.Struct):
    """A half message, the decision about it, and what is stored for that."""

    half: Message
    verdict: Verdict
    stored: Message | None = None
    append: Append | None = None


class History(Protocol):
    """Transactions that were resolved before."""

    def is_resolved_late(self, half: Message) -> bool: ...

    async def is_committed(self, half: Message) -> bool: ...


class Checker:
    """Walks over the half messages from where it stopped, a round every `transactionCheckInterval`.

    A half message that stays undecided is put back at the end of the queue, so that the offset of the queue can
    advance.
    """

    def __init__(self, parts: BrokerParts, resolved: ResolvedHalves, *, history: History) -> None:
        self._config = parts.config
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clock = parts.clock
        self._check_requests = CheckRequests(parts.config, parts.clients)
        self._resolved = resolved
        self._history = history
        self._ops = OpProgress()

    def load(self) -> None:
        """Continue from the committed offsets, limited to the offsets that the queues have."""
        self._resolved.start(self._start_offset(HALF_TOPIC))
        self._ops = OpProgress(self._start_offset(OP_TOPIC))

    def _start_offset(self, topic: str) -> int:
        reader = self._store.reader
        low, high = max(reader.min_offset(topic, QUEUE_ID), 0), reader.max_offset(topic, QUEUE_ID)
        committed = self._offsets.get(TRANSACTION_GROUP, topic, QUEUE_ID)
        return low if committed is None else min(max(committed, low), high)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._config.transaction_check_interval / 1000)
            try:
                await self.check()
            except (KeroloxError, OSError) as error:
                log.error("the check of transactions failed, will retry: %s", error)

    async def check(self) -> None:
        """Run one round."""
        began = self._clock.monotonic()
        # Half messages that are put back, or arrive meanwhile, come after this offset and wait for the next round.
        # Store timestamps could not decide that: after the clock was set back they may be in the future.
        end = self._store.append_offset(HALF_TOPIC, QUEUE_ID)
        try:
            is_more = True
            while is_more:
                is_more = self._read_ops()
                await asyncio.sleep(0)
            while await self._turn(end):
                if self._clock.monotonic() - began > _ROUND_SECONDS:
                    log.warning(
                        "the check of transactions takes too long and stops at queue offset %d", self._resolved.cursor
                    )
                    break
                await asyncio.sleep(0)
        except (KeroloxError, OSError):
            await self.save()
            raise
        await self.save()

    async def save(self) -> None:
        """Commit the progress, once the half messages that were put back are durable.

        Otherwise a power cut could remove such a half message and leave the offset behind it.
        """
        cursor, done, end = self._resolved.cursor, self._ops.settle(self._resolved.cursor), self._store.log.end_offset
        reached = {HALF_TOPIC: cursor, OP_TOPIC: done}
        if all(
            (self._offsets.get(TRANSACTION_GROUP, topic, QUEUE_ID) or 0) == offset for topic, offset in reached.items()
        ):
            return
        await self._store.flusher.flush()
        if self._store.flusher.durable_offset < end:
            log.error("the progress of the transaction check is not saved: the log is not durable up to %d", end)
            return
        for topic, offset in reached.items():
            self._offsets.commit(TRANSACTION_GROUP, topic, QUEUE_ID, offset)

    # Ops

    def _read_ops(self) -> bool:
        """Read some ops; return whether there may be more."""
        next_offset = self._ops.next_offset
        got = self._store.reader.get(OP_TOPIC, QUEUE_ID, next_offset, count_max=_READ_COUNT, bytes_max=_READ_SIZE)
        if not got.count:
            is_corrected = next_offset < got.next_offset <= got.max_offset
            if is_corrected:
                self._ops.skip(got.next_offset)
            return is_corrected
        half_max = self._store.append_offset(HALF_TOPIC, QUEUE_ID)
        for op in _decode_messages(got):
            named = [offset for offset in half_offsets(op) if self._resolved.cursor <= offset < half_max]
            for offset in named:
                self._resolved.mark(offset)
            self._ops.read(op.queue_offset, max(named, default=-1))
        self._ops.skip(got.next_offset)
        self._ops.settle(self._resolved.cursor)
        return True

    # Half messages

    async def _turn(self, end: int) -> bool:
        """Handle some half messages; return whether the round goes on."""
        cursor = self._pass_resolved()
        if cursor >= end:
            return False
        if cursor in self._resolved:
            return True
        got = self._store.reader.get(HALF_TOPIC, QUEUE_ID, cursor, count_max=_READ_COUNT, bytes_max=_READ_SIZE)
        if not got.count:
            is_corrected = cursor < got.next_offset <= got.max_offset
            if is_corrected:
                self._resolved.advance(got.next_offset)
            return is_corrected
        read = [half for half in _decode_messages(got) if half.queue_offset < end]
        steps, is_over = self._steps(await self._verdicts(read))
        appended = self._append([step.append for step in steps if step.append is not None], steps)
        if not is_over:
            # Also passes half messages that the log no longer has.
            self._resolved.advance(max(min(got.next_offset, end), self._resolved.cursor))
        await self._send_checks(steps, appended)
        return not is_over

    def _pass_resolved(self) -> int:
        cursor = self._resolved.cursor
        limit = cursor + _PASSED_MAX
        while cursor < limit and cursor in self._resolved:
            cursor += 1
        self._resolved.advance(cursor)
        return cursor

    async def _verdicts(self, read: list[Message]) -> list[tuple[Message, Verdict]]:
        """Decide about each half message, up to the first that has to wait; yields to other tasks."""
        decided: list[tuple[Message, Verdict]] = []
        for half in read:
            verdict = self._verdict(half)
            is_open = verdict not in (Verdict.RESOLVED, Verdict.WAIT)
            if is_open and await self._history.is_committed(half):
                verdict = Verdict.RESOLVED
            decided.append((half, verdict))
            if verdict is Verdict.WAIT:
                break
        return decided

    def _steps(self, decided: list[tuple[Message, Verdict]]) -> tuple[list[_Step], bool]:
        steps: list[_Step] = []
        for half, verdict in decided:
            step = self._step(half, verdict)
            if step.verdict is Verdict.WAIT:
                return steps, True
            steps.append(step)
        return steps, False

    def _verdict(self, half: Message) -> Verdict:
        config, now = self._config, self._clock.millis()
        if half.queue_offset in self._resolved:
            return Verdict.RESOLVED
        age = now - half.born_timestamp
        # A clock that is ahead must not discard messages.
        trusted_age = self._store.retention.trusted_time.millis() - half.born_timestamp
        is_old = trusted_age > self._store.config.file_reserved_time * _HOUR_MILLIS
        if is_old or half_queue.check_times(half) >= config.transaction_check_max:
            return Verdict.DISCARD
        seconds = half_queue.immunity_seconds(half)
        if seconds is None:
            # As in Java, a message that was born in the future is checked at once.
            return Verdict.WAIT if 0 <= age <= config.transaction_time_out else Verdict.CHECK
        immunity = config.transaction_time_out if seconds == -1 else seconds * 1000
        return Verdict.POSTPONE if age <= immunity else Verdict.CHECK

    def _step(self, half: Message, verdict: Verdict) -> _Step:
        if verdict in (Verdict.RESOLVED, Verdict.WAIT):
            return _Step(half, verdict)
        try:
            # It may have been resolved since the decision, which yields to other tasks.
            if half.queue_offset in self._resolved or self._history.is_resolved_late(half):
                return _Step(half, Verdict.RESOLVED)
            if verdict is Verdict.DISCARD:
                return self._discard(half)
            half_queue.target(half)
            if verdict is Verdict.CHECK:
                stored = half_queue.with_check_times(half, half_queue.check_times(half) + 1)
            else:
                stored = half_queue.postponed(half)
            return _Step(half, verdict, stored, half_queue.append_of(stored))
        except MessageIllegal as error:
            log.warning("the half message at %d cannot be put back: %s", half.queue_offset, error)
            return self._discard(half)

    def _discard(self, half: Message) -> _Step:
        log.warning("the half message at %d, id %s, moves to %s", half.queue_offset, half.message_id, CHECK_MAX_TOPIC)
        self._topics.create(CHECK_MAX_TOPIC, 1)
        return _Step(half, Verdict.DISCARD, None, half_queue.append_of(half_queue.discarded(half)))

    def _append(self, appends: list[Append], steps: list[_Step]) -> list[Appended]:
        """Store the appends of the steps and move the cursor over them; StoreError if some were not stored."""
        appended = self._store.append(appends) if appends else []
        left = len(appended)
        for step in steps:
            if step.append is not None:
                if not left:
                    raise StoreFull("the disk has no room for another file of the commit log")
                left -= 1
            self._resolved.advance(max(step.half.queue_offset + 1, self._resolved.cursor))
        return appended

    async def _send_checks(self, steps: list[_Step], appended: list[Appended]) -> None:
        stored = zip((step for step in steps if step.append is not None), appended, strict=True)
        checks = [(step, result) for step, result in stored if step.verdict is Verdict.CHECK]
        if not checks:
            return
        store = self._store
        if store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            # The producer's END_TRANSACTION refers to the half message that was just put back.
            await store.flusher.flush()
        for step, result in checks:
            assert step.stored is not None
            self._check_requests.send(
                replace(
                    step.stored,
                    queue_offset=result.queue_offset,
                    physical_offset=result.physical_offset,
                    store_timestamp=result.store_timestamp,
                )
            )


def _decode_messages(got: GetResult) -> list[Message]:
    messages: list[Message] = []
    for record in got.records:
        try:
            messages.append(decode(record))
        except RecordError as error:
            log.error("a record of a transaction cannot be decoded, and is skipped: %s", error)
    return messages


class CheckRequests:
    """CHECK_TRANSACTION_STATE requests to the producers of a group, round robin.

    They answer with END_TRANSACTION on the same connection (AbstractTransactionalMessageCheckListener).
    """

    def __init__(self, config: BrokerConfig, clients: ClientRegistry) -> None:
        self._config = config
        self._clients = clients
        self._turns = count()

    def send(self, half: Message) -> bool:
        """Ask a producer about a half message; False if no producer of its group is connected."""
        group = half_queue.producer_group(half)
        members = self._clients.producers.get(group)
        if members:
            request, body = self._request(half)
            first, size = next(self._turns), len(members)
            for attempt in range(min(_PRODUCERS_MAX, size)):
                connection = next(islice(members, (first + attempt) % size, None))
                if connection.send_oneway(request, body):
                    return True
        log.info("no producer of group %s is connected to check the half message at %d", group, half.queue_offset)
        return False

    def _request(self, half: Message) -> tuple[CheckTransactionState, bytes]:
        key = half_queue.unique_key(half).decode("utf-8", "replace") or None
        request = CheckTransactionState(
            # As in Java, the half topic.
            topic=half.topic,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_id(half.store_host, half.physical_offset),
            broker_name=self._config.broker_name,
        )
        topic, queue_id = half_queue.target(half)
        real = replace(half, topic=topic, queue_id=queue_id)
        return request, bytes(encode(real, body_size_max=max(len(half.body), 1)))
