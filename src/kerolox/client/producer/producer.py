"""The producer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self, Unpack, cast

from kerolox.client.lifecycle import Lifecycle
from kerolox.client.members import TransactionCheck
from kerolox.client.messages import Message, Received, SendResult
from kerolox.client.names import check_group
from kerolox.client.options import Options
from kerolox.client.producer.batching import Batching
from kerolox.client.producer.compression import compressed
from kerolox.client.producer.hooked import HookedMessages
from kerolox.client.producer.outgoing import BatchPart, Outgoings
from kerolox.client.producer.queue_choice import Selector, by_hash, exactly
from kerolox.client.producer.recalling import recall
from kerolox.client.producer.requests import Requests
from kerolox.client.producer.sending import Sender
from kerolox.client.producer.settings import ProducerKeywords, configured
from kerolox.client.session import Session
from kerolox.message import hosts
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds
from kerolox.wire.bodies.queues import MessageQueue

# Picks the queue for a message, of those that can be written.
QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]


class Producer:
    """Sends messages on behalf of a group.

        async with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            await producer.send(Message("orders", b"..."))

    Hundreds of tasks may send at once; they share one connection to each broker.
    """

    def __init__(self, group: str, *, options: Options | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        check_group(group)
        self.group = group
        self.options, self.settings = configured(options, cast("dict[str, Any]", keywords))
        self._life = Lifecycle(f"producer of group {group!r}")
        self._wrapped_group = self.options.wrap(group)
        self._outgoings = Outgoings(
            self.options,
            UniqueIds(hosts.pack(self.options.ip, 0)[:-4], clock=self.options.clock),
            max_message_size=self.settings.max_message_size,
        )
        self._hooked = HookedMessages(self._wrapped_group, self.settings.hooks)
        self._session: Session
        self._sender: Sender
        self._requests: Requests
        self._batching: Batching | None = None

    # Its life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begins; brokers are connected to when they are needed."""
        self._life.begin()
        self._session = await Session.acquire(self.options)
        try:
            self._session.add_producer(self._wrapped_group, self)
        except BaseException:
            self._life.end()
            await self._session.release()
            raise
        self._sender = Sender(self._session, self._wrapped_group, self.settings)
        self._requests = Requests(self._session, self._sender, self._outgoings, self.settings)
        if self.settings.auto_batch:
            self._batching = Batching(
                self._send_batch,
                linger_seconds=self.settings.linger_seconds,
                size_max=min(self.settings.batch_size_max, self.settings.max_message_size // 2),
                count_max=self.settings.batch_count_max,
            )
        self._life.begun()

    async def close(self) -> None:
        """Waits for what is being sent, tells the brokers, and leaves; a second time does nothing."""
        if not self._life.end():
            return
        try:
            if self._batching is not None:
                await self._batching.flush()
            await self._sender.close()
            await self._session.remove_producer(self._wrapped_group)
        finally:
            await self._session.release()

    # Sending

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        order_by: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_seconds: float | None = None,
    ) -> SendResult:
        """Returns where the message came to lie, once a broker has it; several messages of one topic go as a batch.

        All with the same `order_by` go to the same queue, `queue` is that queue, and `selector` picks one: such
        messages are not tried elsewhere. SendFailed if no broker took it; MessageIllegal if none ever would.
        """
        self._life.check()
        choice = self._choice(message, order_by, queue, selector)
        can_wait = selector is None and timeout_seconds is None
        if not self._hooked:
            return await self._send(message, choice, queue or order_by, timeout_seconds, can_wait=can_wait)
        with self._hooked.around(message) as given:
            given.result = await self._send(
                given.message, choice, queue or order_by, timeout_seconds, can_wait=can_wait
            )
        return given.result

    async def _send(
        self,
        message: Message | Sequence[Message],
        choice: Selector | None,
        together: MessageQueue | str | int | None,
        timeout_seconds: float | None,
        *,
        can_wait: bool,
    ) -> SendResult:
        if isinstance(message, Message):
            if can_wait and self._batching is not None and self._is_small(message):
                part = self._outgoings.part(message)
                return await self._batching.add(message, part, choice, together)
            out = self._outgoings.one(message)
            if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                out.body, out.sys_flag = await compressed(out.body, self.settings)
        else:
            out = self._outgoings.batch(message)
        return await self._sender.send(out, choice, timeout_seconds)

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        order_by: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Puts the message on its way and returns; whether a broker has it is not known, and nothing is repeated."""
        self._life.check()
        choice = self._choice(message, order_by, queue, selector)
        with self._hooked.around(message) as given:
            if isinstance(given.message, Message):
                out = self._outgoings.one(given.message)
                if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                    out.body, out.sys_flag = await compressed(out.body, self.settings)
            else:
                out = self._outgoings.batch(given.message)
            await self._sender.send_oneway(out, choice)

    async def request(
        self,
        message: Message,
        *,
        order_by: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_seconds: float | None = None,
    ) -> Received:
        """Sends a message and returns the reply to it that a consumer gives (`reply`).

        RequestTimeout if none comes in time: perhaps somebody is at work on it all the same.
        """
        self._life.check()
        seconds = self.settings.send_timeout_seconds if timeout_seconds is None else timeout_seconds
        choice = self._choice(message, order_by, queue, selector)
        with self._hooked.around(message) as given:
            return await self._requests.request(given.message, choice, seconds)

    async def reply(self, request: Received, body: bytes, *, timeout_seconds: float | None = None) -> SendResult:
        """Answers a message that was sent with `request`; SendFailed if nobody waits for it any more."""
        self._life.check()
        return await self._requests.reply(request, body, timeout_seconds)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Takes back a timed message that has not been delivered yet, and returns its id.

        The handle is that of its SendResult. AnswerError if the broker does not, or no longer can.
        """
        self._life.check()
        return await recall(self._session, self._wrapped_group, self.options.wrap(topic), recall_handle)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be written: what `queue` and `selector` choose from."""
        self._life.check()
        wrapped = self._outgoings.topic(topic)
        deadline = asyncio.get_running_loop().time() + self.settings.send_timeout_seconds
        found = self._sender.publishing.known(wrapped) or await self._sender.publishing.find(wrapped, deadline)
        return list(found.queues)

    def _choice(
        self,
        message: Message | Sequence[Message],
        order_by: str | int | None,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> Selector | None:
        if order_by is None and queue is None and selector is None:
            return None
        if (order_by is not None) + (queue is not None) + (selector is not None) > 1:
            raise MessageIllegal("of order_by, queue and selector, at most one is given")
        first = message if isinstance(message, Message) else next(iter(message), None)
        if first is None:
            return None
        if queue is not None:
            if self.options.unwrap(queue.topic) != self.options.unwrap(first.topic):
                raise MessageIllegal(f"a message of topic {first.topic!r} for a queue of {queue.topic!r}")
            return exactly(queue)
        if selector is not None:
            return lambda queues: selector(queues, first)
        assert order_by is not None
        return by_hash(order_by)

    def _is_small(self, message: Message) -> bool:
        """Whether it may travel with others; what is large is compressed, which batches are not."""
        is_large = isinstance(message.body, bytes) and len(message.body) >= self.settings.compress_msg_body_over_howmuch
        return not is_large and Batching.takes(message)

    async def _send_batch(self, messages: list[Message], parts: list[BatchPart], choice: Selector | None) -> SendResult:
        if len(messages) == 1:
            out = self._outgoings.one(messages[0], message_id=parts[0].message_id)
        else:
            out = self._outgoings.batch_of(messages, parts)
        return await self._sender.send(out, choice)

    # What the session asks

    async def check_transaction(self, check: TransactionCheck) -> None:
        """Only a TransactionProducer has an answer to this."""
