"""Transactional messages, which consumers see only if the local transaction commits (TransactionMQProducer)."""

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum
from typing import TypeVar, Unpack

import msgspec

from kerolox.client.callbacks import Callback, call_back
from kerolox.client.errors import NoRoute
from kerolox.client.hooks import EndedTransaction
from kerolox.client.messages import Message, Received, SendResult, SendStatus, received
from kerolox.client.options import Options
from kerolox.client.producer.compression import compress_body
from kerolox.client.producer.encoding import is_delayed
from kerolox.client.producer.producer import Producer
from kerolox.client.producer.settings import ProducerKeywords
from kerolox.client.session.members import TransactionCheck
from kerolox.errors import KeroloxError
from kerolox.message import property_names, sysflag
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import parse_offset_id
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import EndTransaction

log = logging.getLogger(__name__)

T = TypeVar("T")

# Transaction checks that run concurrently; further ones wait.
_CHECKS_MAX = 16


class Decision(Enum):
    """The state of a transaction. UNKNOWN makes the broker check again later."""

    COMMIT = sysflag.COMMIT
    ROLLBACK = sysflag.ROLLBACK
    UNKNOWN = sysflag.NOT_TRANSACTION


_JAVA_STATES = {
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
    Decision.UNKNOWN: "UNKNOW",
}


class TransactionResult(msgspec.Struct, frozen=True):
    """The result of sending the half message, and the decision. `error` is what the local transaction raised."""

    sent: SendResult
    decision: Decision
    error: Exception | None = None


class TransactionProducer(Producer):
    """A producer of transactional messages.

    If a broker has not received the decision on a half message, it asks any producer of the group, perhaps in another
    process than the one that sent it. Then `check` is called with the message and decides. Plain functions run in a
    thread.
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
        self._check_slots = asyncio.Semaphore(_CHECKS_MAX)

    async def start(self) -> None:
        """Start the producer and register with the known brokers, so that they can send transaction checks."""
        await super().start()
        # Other brokers get a heartbeat when the route of their topic becomes known.
        await self._session.heartbeat()

    async def send_in_transaction(
        self, message: Message, execute: Callback[Message, Decision], *, timeout_seconds: float | None = None
    ) -> TransactionResult:
        """Send a half message, run `execute`, and commit or roll back as it decides.

        If `execute` raises, the decision is left to `check`. Raises SendFailed if the half message was not sent; then
        `execute` has not run.
        """
        self._lifecycle.check()
        if is_delayed(message):
            raise MessageIllegal("a transactional message must not be delayed")
        with self._message_hooks.around(message) as hooked:
            out = self._encoder.encode(
                hooked.message, {property_names.TRAN_MSG: "true", property_names.PGROUP: self._wrapped_group}
            )
            if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                out.body, out.sys_flag = await compress_body(out.body, self.settings)
            out.sys_flag = sysflag.with_transaction_type(out.sys_flag, sysflag.PREPARED)
            hooked.result = sent = await self._sender.send(out, None, timeout_seconds)
        decision, failure = Decision.ROLLBACK, None
        # Like Java, roll back a half message that was stored with a status other than OK.
        if sent.status is SendStatus.OK:
            decision, failure = await _decide(execute, message)
        await self._send_decision(message, sent, out.topic, decision)
        return TransactionResult(sent, decision, failure)

    async def _send_decision(self, message: Message, sent: SendResult, topic: str, decision: Decision) -> None:
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
            log.warning(
                "%s of message %s was not sent, so the broker will check the transaction: %s",
                decision.name,
                sent.message_id,
                error,
            )
        else:
            self._notify_hooks(request, address, message.tag, message.keys)

    async def check_transaction(self, check: TransactionCheck) -> None:
        """Send the decision of the user's `check` to the broker that asks for it."""
        record = check.record
        queue = MessageQueue("", record.queue_id, record.topic)
        async with self._check_slots:
            decision, _ = await _decide(self._check, received(record, queue, self.options.unwrap(record.topic)))
        request = EndTransaction(
            topic=record.topic,
            producer_group=self._wrapped_group,
            tran_state_table_offset=check.tran_state_table_offset,
            commit_log_offset=check.commit_log_offset,
            commit_or_rollback=decision.value,
            from_transaction_check=True,
            msg_id=record.get(property_names.UNIQ_KEY) or check.message_id or record.offset_id,
            transaction_id=check.transaction_id,
        )
        await self._session.oneway(check.address, request, timeout_seconds=self.settings.send_timeout_seconds)
        self._notify_hooks(request, check.address, record.tags, record.keys)

    def _notify_hooks(self, ended: EndTransaction, address: str, tags: str | None, keys: Sequence[str]) -> None:
        self._sender.hooks.transaction_ended(
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


async def _decide(function: Callback[T, Decision], message: T) -> tuple[Decision, Exception | None]:
    try:
        decision = await call_back(function, message)
        if not isinstance(decision, Decision):
            raise TypeError(f"the function must return a Decision, not {decision!r}")
    except Exception as error:
        log.exception("the local transaction or its check failed; the broker will check the transaction again")
        return Decision.UNKNOWN, error
    return decision, None
