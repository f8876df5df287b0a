"""Transactions: a message that consumers see only if what the producer did beside it came to a good end."""

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum
from typing import TypeVar, Unpack

import msgspec

from kerolox.client.callbacks import Callback, call_back
from kerolox.client.errors import NoRoute
from kerolox.client.hooks import EndedTransaction
from kerolox.client.members import TransactionCheck
from kerolox.client.messages import Message, Received, SendResult, SendStatus, received
from kerolox.client.options import Options
from kerolox.client.producer.compression import compressed
from kerolox.client.producer.outgoing import is_delayed
from kerolox.client.producer.producer import Producer
from kerolox.client.producer.settings import ProducerKeywords
from kerolox.errors import KeroloxError
from kerolox.message import names, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import parse_offset_id
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import EndTransaction

log = logging.getLogger(__name__)

T = TypeVar("T")

# As many questions of brokers are worked on at once.
_CHECKS_MAX = 16


class Decision(Enum):
    """What becomes of a half message. Of UNKNOWN the broker asks again later."""

    COMMIT = sysflag.COMMIT
    ROLLBACK = sysflag.ROLLBACK
    UNKNOWN = sysflag.NOT_TRANSACTION


_JAVA_STATES = {
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
    Decision.UNKNOWN: "UNKNOW",
}


class TransactionResult(msgspec.Struct, frozen=True):
    """How the half message was sent, and what was decided. `error` is what the local transaction raised."""

    sent: SendResult
    decision: Decision
    error: Exception | None = None


class TransactionProducer(Producer):
    """A producer whose messages are sent in transactions.

    `check` is asked by brokers what became of a message whose decision they never got, perhaps in another process
    than the one that sent it: it is given the message, and finds out. Plain functions run in a thread.
    """

    def __init__(
        self,
        group: str,
        check: Callback[Received, Decision],
        *,
        options: Options | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        super().__init__(group, options=options, **keywords)
        self._check = check
        self._checks = asyncio.Semaphore(_CHECKS_MAX)

    async def start(self) -> None:
        """Begins, and tells brokers that questions about transactions of this group may come here."""
        await super().start()
        # Those of topics that were not sent to yet are told when they become known.
        await self._session.heartbeat()

    async def send_in_transaction(
        self, message: Message, execute: Callback[Message, Decision], *, timeout_seconds: float | None = None
    ) -> TransactionResult:
        """Sends the message so that nobody sees it, runs `execute`, and commits or rolls back as that decides.

        What `execute` raises leaves the decision to `check`. SendFailed if the message could not be sent, and then
        nothing was run.
        """
        self._life.check()
        if is_delayed(message):
            raise MessageIllegal("a delayed message in a transaction, and brokers take none")
        with self._hooked.around(message) as given:
            out = self._outgoings.one(given.message, {names.TRAN_MSG: "true", names.PGROUP: self._wrapped_group})
            if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                out.body, out.sys_flag = await compressed(out.body, self.settings)
            out.sys_flag = sysflag.with_transaction_type(out.sys_flag, sysflag.PREPARED)
            given.result = sent = await self._sender.send(out, None, timeout_seconds)
        decision, failure = Decision.ROLLBACK, None
        # A half message that is not as safe as wished is taken back, as in Java.
        if sent.status is SendStatus.OK:
            decision, failure = await _decided(execute, message)
        await self._end(message, sent, out.topic, decision)
        return TransactionResult(sent, decision, failure)

    async def _end(self, message: Message, sent: SendResult, topic: str, decision: Decision) -> None:
        _, physical_offset = parse_offset_id(sent.offset_id)
        request = EndTransaction(
            topic=topic,
            producer_group=self._wrapped_group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=decision.value,
            from_transaction_check=False,
            msg_id=sent.message_id,
            transaction_id=sent.transaction_id or sent.message_id,
        )
        try:
            address = self._session.routes.address(sent.queue.broker_name)
            if address is None:
                raise NoRoute(f"broker {sent.queue.broker_name!r} has no master now")
            await self._session.oneway(address, request, timeout_seconds=self.settings.send_timeout_seconds)
        except KeroloxError as error:
            log.warning("%s of %s was not told, and will be asked for: %s", decision.name, sent.message_id, error)
        else:
            self._tell_hooks(request, address, message.tag, message.keys)

    async def check_transaction(self, check: TransactionCheck) -> None:
        """Answers a broker that asks what became of a transaction."""
        record = check.record
        queue = MessageQueue("", record.queue_id, record.topic)
        async with self._checks:
            decision, _ = await _decided(self._check, received(record, queue, self.options.unwrap(record.topic)))
        request = EndTransaction(
            topic=record.topic,
            producer_group=self._wrapped_group,
            tran_state_table_offset=check.tran_state_table_offset,
            commit_log_offset=check.commit_log_offset,
            commit_or_rollback=decision.value,
            from_transaction_check=True,
            msg_id=record.get(names.UNIQ_KEY) or check.message_id or record.offset_id,
            transaction_id=check.transaction_id,
        )
        await self._session.oneway(check.address, request, timeout_seconds=self.settings.send_timeout_seconds)
        self._tell_hooks(request, check.address, record.tags, record.keys)

    def _tell_hooks(self, ended: EndTransaction, address: str, tags: str | None, keys: Sequence[str]) -> None:
        self._sender.hooks.ended(
            EndedTransaction(
                self._wrapped_group,
                self.options.unwrap(ended.topic or ""),
                tags,
                keys,
                ended.msg_id,
                ended.transaction_id or ended.msg_id,
                address,
                _JAVA_STATES[Decision(ended.commit_or_rollback)],
                bool(ended.from_transaction_check),
                self.options.clock.millis(),
            )
        )


async def _decided(function: Callback[T, Decision], message: T) -> tuple[Decision, Exception | None]:
    try:
        decision = await call_back(function, message)
        if not isinstance(decision, Decision):
            raise TypeError(f"a transaction ends with a Decision, not with {decision!r}")
    except Exception as error:
        log.exception("a transaction has no decision yet")
        return Decision.UNKNOWN, error
    return decision, None
