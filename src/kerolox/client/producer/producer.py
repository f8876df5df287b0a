"""The producer (DefaultMQProducer)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self, Unpack, cast

from kerolox.client.errors import NoRoute
from kerolox.client.messages import Message, Received, SendResult
from kerolox.client.options import Options
from kerolox.client.producer.accumulator import Accumulator
from kerolox.client.producer.compression import compress_body
from kerolox.client.producer.encoding import BatchPart, MessageEncoder
from kerolox.client.producer.hooks import MessageHooks
from kerolox.client.producer.queue_selection import Selector, by_hash, fixed_queue
from kerolox.client.producer.request_reply import RequestReply
from kerolox.client.producer.send import Sender
from kerolox.client.producer.settings import ProducerKeywords, split_keywords
from kerolox.client.resource_names import check_group
from kerolox.client.session.lifecycle import Lifecycle
from kerolox.client.session.members import TransactionCheck
from kerolox.client.session.session import Session
from kerolox.message import hosts
from kerolox.message.errors import MessageIllegal
from kerolox.message.ids import UniqueIds, decode_handle
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import RecallMessage

# Picks the queue of a message from the writable queues of its topic.
QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]


class Producer:
    """Sends messages on behalf of a group.

        async with Producer("shop", namesrv_addr="127.0.0.1:9876") as producer:
            await producer.send(Message("orders", b"..."))

    Hundreds of tasks may send concurrently; they share one connection to each broker.
    """

    def __init__(self, group: str, *, options: Options | None = None, **keywords: Unpack[ProducerKeywords]) -> None:
        check_group(group)
        self.group = group
        self.options, self.settings = split_keywords(options, cast("dict[str, Any]", keywords))
        self._lifecycle = Lifecycle(f"producer of group {group!r}")
        self._wrapped_group = self.options.wrap(group)
        self._encoder = MessageEncoder(
            self.options,
            UniqueIds(hosts.pack(self.options.ip, 0)[:-4], clock=self.options.clock),
            max_message_size=self.settings.max_message_size,
        )
        self._message_hooks = MessageHooks(self._wrapped_group, self.settings.hooks)
        self._session: Session
        self._sender: Sender
        self._request_reply: RequestReply
        self._accumulator: Accumulator | None = None

    # Lifecycle

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the producer. It connects to brokers when they are needed."""
        self._lifecycle.set_starting()
        self._session = await Session.acquire(self.options)
        try:
            self._session.add_producer(self._wrapped_group, self)
        except BaseException:
            self._lifecycle.set_closed()
            await self._session.release()
            raise
        self._sender = Sender(self._session, self._wrapped_group, self.settings)
        self._request_reply = RequestReply(self._session, self._sender, self._encoder, self.settings)
        if self.settings.auto_batch:
            self._accumulator = Accumulator(
                self._send_batch,
                linger_seconds=self.settings.linger_seconds,
                size_max=min(self.settings.batch_size_max, self.settings.max_message_size // 2),
                count_max=self.settings.batch_count_max,
            )
        self._lifecycle.set_running()

    async def close(self) -> None:
        """Wait for the sends in flight, and unregister from the brokers. Closing twice does nothing."""
        if not self._lifecycle.set_closed():
            return
        try:
            if self._accumulator is not None:
                await self._accumulator.flush()
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
        """Return the result once a broker has stored the message; several messages of one topic are sent as a batch.

        Messages with the same `order_by` go to the same queue; `queue` names the queue, and `selector` picks it. With
        one of these three, the message is not retried on another queue. Raises SendFailed if no broker accepted the
        message, and MessageIllegal if it is invalid.
        """
        self._lifecycle.check()
        queue_selector = self._queue_selector(message, order_by, queue, selector)
        may_linger = selector is None and timeout_seconds is None
        if not self._message_hooks:
            return await self._send(message, queue_selector, queue or order_by, timeout_seconds, may_linger=may_linger)
        with self._message_hooks.around(message) as hooked:
            hooked.result = await self._send(
                hooked.message, queue_selector, queue or order_by, timeout_seconds, may_linger=may_linger
            )
        return hooked.result

    async def _send(
        self,
        message: Message | Sequence[Message],
        selector: Selector | None,
        order_key: MessageQueue | str | int | None,
        timeout_seconds: float | None,
        *,
        may_linger: bool,
    ) -> SendResult:
        if isinstance(message, Message):
            if may_linger and self._accumulator is not None and self._may_accumulate(message):
                part = self._encoder.part(message)
                return await self._accumulator.add(message, part, selector, order_key)
            out = self._encoder.encode(message)
            if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                out.body, out.sys_flag = await compress_body(out.body, self.settings)
        else:
            out = self._encoder.encode_batch(message)
        return await self._sender.send(out, selector, timeout_seconds)

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        order_by: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send without waiting for an acknowledgement and without retries: the message may be lost."""
        self._lifecycle.check()
        queue_selector = self._queue_selector(message, order_by, queue, selector)
        with self._message_hooks.around(message) as hooked:
            if isinstance(hooked.message, Message):
                out = self._encoder.encode(hooked.message)
                if len(out.body) >= self.settings.compress_msg_body_over_howmuch:
                    out.body, out.sys_flag = await compress_body(out.body, self.settings)
            else:
                out = self._encoder.encode_batch(hooked.message)
            await self._sender.send_oneway(out, queue_selector)

    async def request(
        self,
        message: Message,
        *,
        order_by: str | int | None = None,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_seconds: float | None = None,
    ) -> Received:
        """Send a message and return the reply that a consumer sends with `reply`.

        Raises RequestTimeout if there is none in time; a consumer may have handled the message all the same.
        """
        self._lifecycle.check()
        seconds = self.settings.send_timeout_seconds if timeout_seconds is None else timeout_seconds
        queue_selector = self._queue_selector(message, order_by, queue, selector)
        with self._message_hooks.around(message) as hooked:
            return await self._request_reply.request(hooked.message, queue_selector, seconds)

    async def reply(self, request: Received, body: bytes, *, timeout_seconds: float | None = None) -> SendResult:
        """Reply to a message that was sent with `request`; raise SendFailed if the requester does not wait any more."""
        self._lifecycle.check()
        return await self._request_reply.reply(request, body, timeout_seconds)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a timed message that has not been delivered yet, and return its id.

        The handle comes from its SendResult. Raises AnswerError if the broker refuses, or it is too late.
        """
        self._lifecycle.check()
        session, wrapped = self._session, self.options.wrap(topic)
        handle = decode_handle(recall_handle)
        address = session.routes.address(handle.broker_name)
        if address is None:
            # Only if necessary: NameServers may not know a topic yet that this message has just created.
            await session.routes.get(wrapped)
            address = session.routes.address(handle.broker_name)
        if address is None:
            raise NoRoute(f"broker {handle.broker_name!r}, which stores the message, has no master now")
        request = RecallMessage(producer_group=self._wrapped_group, topic=wrapped, recall_handle=recall_handle)
        reply = await session.call(
            self.options.vip(address), request, timeout_seconds=self.options.mq_client_api_timeout_seconds
        )
        return reply.fields.msg_id or handle.unique_id

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic, which `queue` and `selector` may choose from."""
        self._lifecycle.check()
        wrapped = self._encoder.topic(topic)
        deadline = asyncio.get_running_loop().time() + self.settings.send_timeout_seconds
        publish_info = self._sender.publish_info
        found = publish_info.known(wrapped) or await publish_info.fetch(wrapped, deadline)
        return list(found.queues)

    def _queue_selector(
        self,
        message: Message | Sequence[Message],
        order_by: str | int | None,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> Selector | None:
        if order_by is None and queue is None and selector is None:
            return None
        if (order_by is not None) + (queue is not None) + (selector is not None) > 1:
            raise MessageIllegal("give at most one of order_by, queue and selector")
        first = message if isinstance(message, Message) else next(iter(message), None)
        if first is None:
            return None
        if queue is not None:
            if self.options.unwrap(queue.topic) != self.options.unwrap(first.topic):
                raise MessageIllegal(f"message of topic {first.topic!r} cannot go to a queue of topic {queue.topic!r}")
            return fixed_queue(queue)
        if selector is not None:
            return lambda queues: selector(queues, first)
        assert order_by is not None
        return by_hash(order_by)

    def _may_accumulate(self, message: Message) -> bool:
        """Large messages are sent alone, because they are compressed and batches are not."""
        is_large = isinstance(message.body, bytes) and len(message.body) >= self.settings.compress_msg_body_over_howmuch
        return not is_large and Accumulator.accepts(message)

    async def _send_batch(
        self, messages: list[Message], parts: list[BatchPart], selector: Selector | None
    ) -> SendResult:
        if len(messages) == 1:
            out = self._encoder.encode(messages[0], message_id=parts[0].message_id)
        else:
            out = self._encoder.encode_parts(messages, parts)
        return await self._sender.send(out, selector)

    # ProducerMember

    async def check_transaction(self, check: TransactionCheck) -> None:
        """Do nothing: only a TransactionProducer can decide."""
