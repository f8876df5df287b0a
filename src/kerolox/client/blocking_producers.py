"""Producers that block."""

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
from kerolox.client.blocking import Blocking, Client, blocks
from kerolox.client.callbacks import Callback
from kerolox.client.producer.settings import ProducerKeywords, ProducerSettings


class Producer(Client[aio.Producer]):
    """Sends messages on behalf of a group.

        with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"..."))

    Threads that send at once share one connection to each broker.
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
    """A producer whose messages are sent in transactions.

    `check` is asked by brokers what became of a message whose decision they never got, perhaps in another process
    than the one that sent it: it is given the message, and finds out, in a thread of its own.
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
        """Sends the message so that nobody sees it, runs `execute`, and commits or rolls back as that decides.

        A plain function is run here, in the calling thread, where its database connection is. What it raises leaves
        the decision to `check`. SendFailed if the message could not be sent, and then nothing was run.
        """
        loop_thread = self._loop_thread()
        inner = cast("aio.TransactionProducer", self._inner)
        asked: Future[None] = Future()
        decided: Future[Decision | Awaitable[Decision]] = Future()

        async def ask_here(message: Message) -> Decision:
            asked.set_result(None)
            decision = await asyncio.wrap_future(decided)
            return await decision if inspect.isawaitable(decision) else decision

        sending = loop_thread.submit(inner.send_in_transaction(message, ask_here, timeout_seconds=timeout_seconds))
        try:
            either: list[Future[Any]] = [sending, asked]
            wait(either, return_when=FIRST_COMPLETED)
            if asked.done():
                _settle(decided, execute, message)
        except BaseException:
            sending.cancel()
            raise
        return loop_thread.result(sending)


def _settle(
    decided: "Future[Decision | Awaitable[Decision]]", execute: Callback[Message, Decision], message: Message
) -> None:
    """Notes what the function returned, or raised, unless nobody waits for that any more."""
    try:
        decision = execute(message)
    except Exception as error:
        with contextlib.suppress(InvalidStateError):
            decided.set_exception(error)
    else:
        with contextlib.suppress(InvalidStateError):
            decided.set_result(decision)
