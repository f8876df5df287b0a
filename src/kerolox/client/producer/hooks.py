"""Calls the hooks of a producer."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from kerolox.client.hooks import EndedTransaction, EndHook, MessageHook, MessageType, SendHook, Sending, message_type
from kerolox.client.messages import Message, SendResult
from kerolox.client.producer.encoding import EncodedMessage
from kerolox.message import sysflag
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message | Sequence[Message])


class MessageHooks:
    """Calls the hooks that may change a message (`MessageHook`). Their exceptions are logged, and the send goes on."""

    def __init__(self, group: str, hooks: Sequence[SendHook]) -> None:
        self._group = group
        self._hooks = [hook for hook in hooks if isinstance(hook, MessageHook)]

    def __bool__(self) -> bool:
        return bool(self._hooks)

    @contextmanager
    def around(self, message: M) -> "Iterator[HookedMessage[M]]":
        """Yield the message, or messages, as the hooks changed them; the caller sets `result` on it."""
        changed = [self._begin(each) for each in ([message] if isinstance(message, Message) else message)]
        hooked = HookedMessage(cast("M", changed[0] if isinstance(message, Message) else changed))
        try:
            yield hooked
        except BaseException as error:
            self._end(changed, None, error)
            raise
        self._end(changed, hooked.result, None)

    def _begin(self, message: Message) -> Message:
        for hook in self._hooks:
            try:
                message = hook.begin_message(message, self._group)
            except Exception:
                log.exception("begin_message of hook %r failed", hook)
        return message

    def _end(self, messages: Sequence[Message], result: SendResult | None, error: BaseException | None) -> None:
        for hook in self._hooks:
            for message in messages:
                try:
                    hook.end_message(message, result, error)
                except Exception:
                    log.exception("end_message of hook %r failed", hook)


@dataclass(slots=True)
class HookedMessage(Generic[M]):
    message: M
    result: SendResult | None = None


class SendHooks:
    """Calls the hooks before and after each attempt to send. Their exceptions are logged, and the send goes on."""

    def __init__(self, group: str, hooks: Sequence[SendHook], clock: Clock) -> None:
        self._group = group
        self._hooks = tuple(hooks)
        self._clock = clock

    def before(self, out: EncodedMessage, queue: MessageQueue, address: str) -> Sending | None:
        """Call the hooks and return the argument for `after`; None if there are no hooks."""
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
                log.exception("before_send of hook %r failed", hook)
        return sending

    def after(self, sending: Sending | None, result: SendResult | None, error: Exception | None) -> None:
        if sending is None:
            return
        sending.result, sending.error = result, error
        for hook in self._hooks:
            try:
                hook.after_send(sending)
            except Exception:
                log.exception("after_send of hook %r failed", hook)

    def transaction_ended(self, ended: EndedTransaction) -> None:
        for hook in self._hooks:
            try:
                if isinstance(hook, EndHook):
                    hook.after_end(ended)
            except Exception:
                log.exception("after_end of hook %r failed", hook)
