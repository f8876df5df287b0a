"""Hooks around sends, for those who have any."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from kerolox.client.hooks import EndedTransaction, EndHook, MessageHook, MessageType, SendHook, Sending, message_type
from kerolox.client.messages import Message, SendResult
from kerolox.client.producer.outgoing import Outgoing
from kerolox.message import sysflag
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message | Sequence[Message])


class HookedMessages:
    """Hooks that add to messages."""

    def __init__(self, group: str, hooks: Sequence[SendHook]) -> None:
        self._group = group
        self._hooks = [hook for hook in hooks if isinstance(hook, MessageHook)]

    def __bool__(self) -> bool:
        return bool(self._hooks)

    @contextmanager
    def around(self, message: M) -> "Iterator[Given[M]]":
        """Gives the message, or the messages, as hooks want them; whoever sends them notes the result there."""
        began = [self._begun(each) for each in ([message] if isinstance(message, Message) else message)]
        given = Given(cast("M", began[0] if isinstance(message, Message) else began))
        try:
            yield given
        except BaseException as error:
            self._end(began, None, error)
            raise
        self._end(began, given.result, None)

    def _begun(self, message: Message) -> Message:
        for hook in self._hooks:
            try:
                message = hook.begin_message(message, self._group)
            except Exception:
                log.exception("a hook failed with a message")
        return message

    def _end(self, messages: Sequence[Message], result: SendResult | None, error: BaseException | None) -> None:
        for hook in self._hooks:
            for message in messages:
                try:
                    hook.end_message(message, result, error)
                except Exception:
                    log.exception("a hook failed with a message that was sent")


@dataclass(slots=True)
class Given(Generic[M]):
    message: M
    result: SendResult | None = None


class HookedSends:
    """What hooks raise is logged; no message is lost for it."""

    def __init__(self, group: str, hooks: Sequence[SendHook], clock: Clock) -> None:
        self._group = group
        self._hooks = tuple(hooks)
        self._clock = clock

    def before(self, out: Outgoing, queue: MessageQueue, address: str) -> Sending | None:
        """Returns what `after` wants; None if there is nobody to tell."""
        if not self._hooks:
            return None
        kind = message_type(out.messages[0]) if out.messages else MessageType.NORMAL
        if out.sys_flag & sysflag.TRANSACTION_MASK == sysflag.PREPARED:
            kind = MessageType.TRANSACTION_HALF
        sending = Sending(
            self._group,
            out.messages,
            out.message_id.split(","),
            queue.broker_name,
            address,
            kind,
            out.body_size,
            self._clock.millis(),
        )
        for hook in self._hooks:
            try:
                hook.before_send(sending)
            except Exception:
                log.exception("a hook failed before sending")
        return sending

    def after(self, sending: Sending | None, result: SendResult | None, error: Exception | None) -> None:
        if sending is None:
            return
        sending.result, sending.error = result, error
        for hook in self._hooks:
            try:
                hook.after_send(sending)
            except Exception:
                log.exception("a hook failed after sending")

    def ended(self, ended: EndedTransaction) -> None:
        for hook in self._hooks:
            try:
                if isinstance(hook, EndHook):
                    hook.after_end(ended)
            except Exception:
                log.exception("a hook failed after the end of a transaction")
