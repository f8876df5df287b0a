"""Message traces for blocking clients."""

from typing import Unpack

from kerolox import client as aio
from kerolox.client.blocking.facade import Client, blocks
from kerolox.client.hooks import Consuming, EndedTransaction, Sending
from kerolox.client.options import Options, Shared
from kerolox.client.tracing.trace_format import TRACE_TOPIC, WAITING_MAX


class Tracing(Client[aio.Tracing]):
    """`with Tracing(namesrv_addr=...) as tracing:`, and then `hooks=[tracing]` for producers and consumers.

    With their `options`, it shares their session.
    """

    def __init__(
        self,
        *,
        topic: str = TRACE_TOPIC,
        name: str = "CLIENT",
        waiting_max: int = WAITING_MAX,
        options: Options | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        super().__init__(aio.Tracing(topic=topic, name=name, waiting_max=waiting_max, options=options, **shared))

    start = blocks(aio.Tracing.start)
    close = blocks(aio.Tracing.close)

    @property
    def sent_count(self) -> int:
        """Number of records sent to the trace topic."""
        return self._inner.sent_count

    @property
    def lost_count(self) -> int:
        """Number of records dropped because too many were queued, or because they could not be sent."""
        return self._inner.lost_count

    @property
    def waiting_count(self) -> int:
        """Number of queued records."""
        return self._inner.waiting_count

    # Clients call hooks on the loop of the inner object, so these need no thread switch.

    def before_send(self, sending: Sending) -> None:
        self._inner.before_send(sending)

    def after_send(self, sending: Sending) -> None:
        self._inner.after_send(sending)

    def after_end(self, ended: EndedTransaction) -> None:
        self._inner.after_end(ended)

    def after_consume(self, consuming: Consuming) -> None:
        self._inner.after_consume(consuming)
