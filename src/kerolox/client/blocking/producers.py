"""Blocking producers."""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from typing import Any, Unpack, cast

from kerolox import client as aio
from kerolox.client import (
    Decision,
    Message,
    Options,
    Received,
    TransactionResult,
)
from kerolox.client.blocking.facade import Blocking, Client, blocks
from kerolox.client.callbacks import Callback
from kerolox.client.producer.settings import ProducerKeywords, ProducerSettings


class Producer(Client[aio.Producer]):
    """Sends messages on behalf of a group.

        with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"..."))

    Threads that send concurrently share one connection to each broker.
    """

    def __init__(self, group: str, *, options: Options | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        super().__init__(aio.Producer(group, options=options, **keywords))

    @property
    def group(self) -> str:
        return self._inner.group

    @property
    def options(self) -> Options:
        return self._inner.options

    @property
    def settings(self) -> ProducerSettings:
        return self._inner.settings

    start = blocks(aio.Producer.start)
    close = blocks(aio.Producer.close)
    send = blocks(aio.Producer.send)
    send_oneway = blocks(aio.Producer.send_oneway)
    request = blocks(aio.Producer.request)
    reply = blocks(aio.Producer.reply)
    recall = blocks(aio.Producer.recall)
    queues = blocks(aio.Producer.queues)


class TransactionProducer(Producer):
    """A producer of transactional messages.

    If a broker has not received the decision on a half message, it asks any producer of the group, perhaps in another
    process than the one that sent it. Then `check` is called with the message, in another thread, and decides.
    """

    def __init__(
        self,
        group: str,
        check: Callback[Received, Decision],
        *,
        options: Options | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        Blocking.__init__(self, aio.TransactionProducer(group, check, options=options, **keywords))

    start = blocks(aio.TransactionProducer.start)

    def send_in_transaction(
        self, message: Message, execute: Callback[Message, Decision], *, timeout_seconds: float | None = None
    ) -> TransactionResult:
        """Send a half message, run `execute`, and commit or roll back as it decides.

        A plain function runs in the calling thread, where its database connection is. If it raises, the decision is
        left to `check`. Raises SendFailed if the half message was not sent; then `execute` has not run.
        """
        loop_thread = self._loop_thread()
        inner = cast("aio.TransactionProducer", self._inner)
        # `execute_here` runs on the loop after the half message was sent: it wakes this thread, which executes the
        # local transaction, and waits for its decision.
        half_sent: Future[None] = Future()
        decided: Future[Decision | Awaitable[Decision]] = Future()

        async def execute_here(message: Message) -> Decision:
            half_sent.set_result(None)
            decision = await asyncio.wrap_future(decided)
            return await decision if inspect.isawaitable(decision) else decision

        sending = loop_thread.submit(inner.send_in_transaction(message, execute_here, timeout_seconds=timeout_seconds))
        try:
            futures: list[Future[Any]] = [sending, half_sent]
            wait(futures, return_when=FIRST_COMPLETED)
            if half_sent.done():
                _execute(execute, message, decided)
        except BaseException:
            sending.cancel()
            raise
        return loop_thread.result(sending)


def _execute(
    execute: Callback[Message, Decision], message: Message, decided: "Future[Decision | Awaitable[Decision]]"
) -> None:
    """Call the function and set its result or exception, unless the future was cancelled."""
    try:
        decision = execute(message)
    except Exception as error:
        with contextlib.suppress(InvalidStateError):
            decided.set_exception(error)
    else:
        with contextlib.suppress(InvalidStateError):
            decided.set_result(decision)
