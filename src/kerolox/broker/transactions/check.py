"""Asks producers about half messages of which they have said nothing for too long."""

import asyncio
import logging
from enum import Enum
from typing import Protocol

import msgspec
from msgspec.structs import replace

from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from kerolox.broker.topics import TopicTable
from kerolox.broker.transactions import half as halves
from kerolox.broker.transactions.asking import Asking
from kerolox.broker.transactions.ended import Ended, OpProgress
from kerolox.broker.transactions.half import QUEUE_ID
from kerolox.broker.transactions.ops import half_offsets
from kerolox.errors import KeroloxError
from kerolox.message.errors import MessageIllegal, RecordError
from kerolox.message.message import Message
from kerolox.message.record import decode
from kerolox.runtime.clock import Clock
from kerolox.store.configuration import FlushDiskType
from kerolox.store.errors import StoreFull
from kerolox.store.log.commit_log import Appended, Draft
from kerolox.store.queue.pull import Got

log = logging.getLogger(__name__)

# What is done in one turn of the loop, before others have theirs.
_READ_COUNT = 32
_READ_SIZE = 1024 * 1024
_PASSED_MAX = 10_000
# After so long a round ends, wherever it stands.
_ROUND_SECONDS = 60.0
_HOUR_MILLIS = 3_600_000


class Verdict(Enum):
    """What is done with a half message that the check has come to."""

    ENDED = "it was committed or rolled back"
    WAIT = "it is too young, and all behind it are younger"
    SPARE = "its producer does not want to be asked yet"
    ASK = "its producer is asked"
    GIVE_UP = "it is put aside"


class _Step(msgspec.Struct):
    """A half message, what is done with it, and what is stored for that."""

    half: Message
    verdict: Verdict
    stored: Message | None = None
    draft: Draft | None = None


class History(Protocol):
    """What has ended before."""

    def is_late(self, half: Message) -> bool: ...

    async def is_committed(self, half: Message) -> bool: ...


class Checker:
    """Goes through the half messages from where it stopped, a round every `transactionCheckInterval`."""

    def __init__(
        self,
        config: BrokerConfig,
        storing: Storing,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        ended: Ended,
        history: History,
        clock: Clock,
    ) -> None:
        self._config = config
        self._store = storing.store
        self._topics = topics
        self._offsets = offsets
        self._asking = Asking(config, storing, clients)
        self._ended = ended
        self._history = history
        self._clock = clock
        self._ops = OpProgress()

    def load(self) -> None:
        """Goes on where the tables say; what the queues do not have is not waited for."""
        self._ended.start(self._begin(HALF_TOPIC))
        self._ops = OpProgress(self._begin(OP_TOPIC))

    def _begin(self, topic: str) -> int:
        reader = self._store.reader
        low, high = max(reader.min_offset(topic, QUEUE_ID), 0), reader.max_offset(topic, QUEUE_ID)
        known = self._offsets.get(TRANSACTION_GROUP, topic, QUEUE_ID)
        return low if known is None else min(max(known, low), high)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._config.transaction_check_interval / 1000)
            try:
                await self.check()
            except (KeroloxError, OSError) as error:
                log.error("transactions are checked again later: %s", error)

    async def check(self) -> None:
        """Does one round."""
        began, started = self._clock.monotonic(), self._clock.millis()
        # What is put back goes behind this, and waits for the next round whatever the wall clock does.
        end = self._store.append_offset(HALF_TOPIC, QUEUE_ID)
        try:
            is_more = True
            while is_more:
                is_more = self._read_ops()
                await asyncio.sleep(0)
            while await self._turn(started, end):
                if self._clock.monotonic() - began > _ROUND_SECONDS:
                    log.warning("the check of transactions stops at %d after a minute", self._ended.cursor)
                    break
                await asyncio.sleep(0)
        except (KeroloxError, OSError):
            await self.save()
            raise
        await self.save()

    async def save(self) -> None:
        """Writes down how far it has come, once the log has made durable what was stored on the way.

        Else a power cut could take a half message that was put back, and leave the progress behind it.
        """
        cursor, done, end = self._ended.cursor, self._ops.settle(self._ended.cursor), self._store.log.end_offset
        reached = {HALF_TOPIC: cursor, OP_TOPIC: done}
        if all(
            (self._offsets.get(TRANSACTION_GROUP, topic, QUEUE_ID) or 0) == offset for topic, offset in reached.items()
        ):
            return
        await self._store.flusher.flush()
        if self._store.flusher.durable_offset < end:
            log.error("the progress of transactions is not written: the log is not durable up to %d", end)
            return
        for topic, offset in reached.items():
            self._offsets.commit(TRANSACTION_GROUP, topic, QUEUE_ID, offset)

    # Ops

    def _read_ops(self) -> bool:
        """Reads some ops; True if there may be more."""
        next_offset = self._ops.next_offset
        got = self._store.reader.get(OP_TOPIC, QUEUE_ID, next_offset, count_max=_READ_COUNT, bytes_max=_READ_SIZE)
        if not got.count:
            is_behind = next_offset < got.next_offset <= got.max_offset
            if is_behind:
                self._ops.skip(got.next_offset)
            return is_behind
        half_max = self._store.append_offset(HALF_TOPIC, QUEUE_ID)
        for op in _decoded(got):
            named = [offset for offset in half_offsets(op) if self._ended.cursor <= offset < half_max]
            for offset in named:
                self._ended.mark(offset)
            self._ops.read(op.queue_offset, max(named, default=-1))
        self._ops.skip(got.next_offset)
        self._ops.settle(self._ended.cursor)
        return True

    # Half messages

    async def _turn(self, started: int, end: int) -> bool:
        """Goes on a little; True if the round is not over."""
        cursor = self._pass_ended()
        if cursor >= end:
            return False
        if cursor in self._ended:
            return True
        got = self._store.reader.get(HALF_TOPIC, QUEUE_ID, cursor, count_max=_READ_COUNT, bytes_max=_READ_SIZE)
        if not got.count:
            is_behind = cursor < got.next_offset <= got.max_offset
            if is_behind:
                self._ended.advance(got.next_offset)
            return is_behind
        read = [half for half in _decoded(got) if half.queue_offset < end]
        steps, is_over = self._steps(await self._judged(read, started))
        places = self._append([step.draft for step in steps if step.draft is not None], steps)
        if not is_over:
            # What the log no longer has is passed too.
            self._ended.advance(max(min(got.next_offset, end), self._ended.cursor))
        await self._ask(steps, places)
        return not is_over

    def _pass_ended(self) -> int:
        cursor = self._ended.cursor
        limit = cursor + _PASSED_MAX
        while cursor < limit and cursor in self._ended:
            cursor += 1
        self._ended.advance(cursor)
        return cursor

    async def _judged(self, read: list[Message], started: int) -> list[tuple[Message, Verdict]]:
        """Returns what is to be done with each, up to the first that is to wait; others have turns meanwhile."""
        judged: list[tuple[Message, Verdict]] = []
        for half in read:
            verdict = self._verdict(half, started)
            is_open = verdict not in (Verdict.ENDED, Verdict.WAIT)
            if is_open and await self._history.is_committed(half):
                verdict = Verdict.ENDED
            judged.append((half, verdict))
            if verdict is Verdict.WAIT:
                break
        return judged

    def _steps(self, judged: list[tuple[Message, Verdict]]) -> tuple[list[_Step], bool]:
        steps: list[_Step] = []
        for half, verdict in judged:
            step = self._step(half, verdict)
            if step.verdict is Verdict.WAIT:
                return steps, True
            steps.append(step)
        return steps, False

    def _verdict(self, half: Message, started: int) -> Verdict:
        config, now = self._config, self._clock.millis()
        if half.queue_offset in self._ended:
            return Verdict.ENDED
        age = now - half.born_timestamp
        is_old = age > self._store.config.file_reserved_time * _HOUR_MILLIS
        if is_old or halves.check_times(half) >= config.transaction_check_max:
            return Verdict.GIVE_UP
        if half.store_timestamp >= started:
            return Verdict.WAIT
        seconds = halves.immunity_seconds(half)
        if seconds is None:
            # One that was born in the future is asked about at once, as in the original.
            return Verdict.WAIT if 0 <= age <= config.transaction_time_out else Verdict.ASK
        immunity = config.transaction_time_out if seconds == -1 else seconds * 1000
        return Verdict.SPARE if age <= immunity else Verdict.ASK

    def _step(self, half: Message, verdict: Verdict) -> _Step:
        if verdict in (Verdict.ENDED, Verdict.WAIT):
            return _Step(half, verdict)
        try:
            # Others have had turns since it was judged.
            if half.queue_offset in self._ended or self._history.is_late(half):
                return _Step(half, Verdict.ENDED)
            if verdict is Verdict.GIVE_UP:
                return self._giving_up(half)
            halves.target(half)
            is_asked = verdict is Verdict.ASK
            stored = halves.again(half, halves.check_times(half) + 1) if is_asked else halves.spared(half)
            return _Step(half, verdict, stored, halves.draft_of(stored))
        except MessageIllegal as error:
            log.warning("the half message at %d cannot wait any longer: %s", half.queue_offset, error)
            return self._giving_up(half)

    def _giving_up(self, half: Message) -> _Step:
        log.warning("the half message at %d, id %s, is put aside", half.queue_offset, half.message_id)
        self._topics.create(CHECK_MAX_TOPIC, 1)
        return _Step(half, Verdict.GIVE_UP, None, halves.draft_of(halves.given_up(half)))

    def _append(self, drafts: list[Draft], steps: list[_Step]) -> list[Appended]:
        """Stores what is to be stored, and passes what that was for; StoreError if some was not stored."""
        places = self._store.append(drafts) if drafts else []
        left = len(places)
        for step in steps:
            if step.draft is not None:
                if not left:
                    raise StoreFull("the disk has no room for another file of the commit log")
                left -= 1
            self._ended.advance(max(step.half.queue_offset + 1, self._ended.cursor))
        return places

    async def _ask(self, steps: list[_Step], places: list[Appended]) -> None:
        stored = [step for step in steps if step.draft is not None]
        asked = [(step, place) for step, place in zip(stored, places, strict=True) if step.verdict is Verdict.ASK]
        if not asked:
            return
        store = self._store
        if store.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            # An answer is to find what it is for.
            await store.flusher.flush()
        for step, place in asked:
            assert step.stored is not None
            self._asking.ask(
                replace(
                    step.stored,
                    queue_offset=place.queue_offset,
                    physical_offset=place.physical_offset,
                    store_timestamp=place.store_timestamp,
                )
            )


def _decoded(got: Got) -> list[Message]:
    found: list[Message] = []
    for record in got.records:
        try:
            found.append(decode(record))
        except RecordError as error:
            log.error("a record of a transaction cannot be read, and is left out: %s", error)
    return found
