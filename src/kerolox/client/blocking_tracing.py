"""Message traces for clients that block."""

from typing import Unpack

from kerolox import client as aio
from kerolox.client.blocking import Client, blocks
from kerolox.client.hooks import Consuming, EndedTransaction, Sending
from kerolox.client.options import Options, Shared
from kerolox.client.trace import TRACE_TOPIC


class Tracing(Client[aio.Tracing]):
    """`with Tracing(namesrv_addr=...) as tracing:`, and then `hooks=[tracing]` for producers and consumers.

    With `options` of theirs, it shares their session.
    """

    def __init__(
        self,
        *,
        topic: str = TRACE_TOPIC,
        name: str = "CLIENT",
        options: Options | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(aio.Tracing(topic=topic, name=name, options=options, **shared))

    start = blocks(aio.Tracing.start)
    close = blocks(aio.Tracing.close)

    # Hooks are called on the loop that the inner one belongs to.

    def before_send(self, sending: Sending) -> None:
        self._inner.before_send(sending)

    def after_send(self, sending: Sending) -> None:
        self._inner.after_send(sending)

    def after_end(self, ended: EndedTransaction) -> None:
        self._inner.after_end(ended)

    def after_consume(self, consuming: Consuming) -> None:
        self._inner.after_consume(consuming)
