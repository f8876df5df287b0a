"""Hooks around sends, for those who have any."""

import logging
from collections.abc import Sequence

from kerolox.client.hooks import EndedTransaction, EndHook, MessageType, SendHook, Sending, message_type
from kerolox.client.messages import SendResult
from kerolox.client.producer.outgoing import Outgoing
from kerolox.message import sysflag
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)


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
