"""Request and reply: a message that waits for an answer, and the message that answers it."""

import asyncio
import uuid

from kerolox.client.errors import ClientError, RequestTimeout
from kerolox.client.messages import Message, Received, SendResult
from kerolox.client.names import REPLY_TOPIC_SUFFIX
from kerolox.client.producer.compression import compressed
from kerolox.client.producer.outgoing import Outgoings
from kerolox.client.producer.queue_choice import Selector
from kerolox.client.producer.sending import Sender
from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.session import Session
from kerolox.message import names

_COPIED = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)


class Requests:
    """Brokers hand a reply to the connection on which they know the requester: they must know it first."""

    def __init__(self, session: Session, sender: Sender, outgoings: Outgoings, settings: ProducerSettings) -> None:
        self._session = session
        self._sender = sender
        self._outgoings = outgoings
        self._settings = settings

    async def request(self, message: Message, selector: Selector | None, timeout_seconds: float) -> Received:
        """Returns the reply; RequestTimeout if none comes in time, SendFailed if the request could not be sent."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        await self._become_known(self._outgoings.topic(message.topic), deadline)
        correlation_id = str(uuid.uuid4())
        out = self._outgoings.one(
            message,
            {
                names.CORRELATION_ID: correlation_id,
                names.REPLY_TO_CLIENT: self._session.client_id,
                names.TTL: str(round(timeout_seconds * 1000)),
            },
        )
        if len(out.body) >= self._settings.compress_msg_body_over_howmuch:
            out.body, out.sys_flag = await compressed(out.body, self._settings)
        reply: asyncio.Future[Received] = loop.create_future()
        self._session.replies[correlation_id] = reply
        try:
            async with asyncio.timeout_at(deadline):
                await self._sender.send(out, selector, max(deadline - loop.time(), 0.001))
                return await reply
        except TimeoutError as error:
            raise RequestTimeout(
                f"no reply to {out.message_id} of topic {message.topic!r} within {timeout_seconds:.3g} s"
            ) from error
        finally:
            del self._session.replies[correlation_id]

    async def _become_known(self, topic: str, deadline: float) -> None:
        """Makes sure that all brokers by which a reply may come know who waits for it."""
        publishing = self._sender.publishing
        queues = publishing.known(topic) or await publishing.find(topic, deadline)
        for cluster in {broker.cluster for broker in queues.route.data.broker_datas if broker.cluster}:
            await publishing.follow(cluster + REPLY_TOPIC_SUFFIX)
        await self._session.introduce()

    async def reply(self, request: Received, body: bytes, timeout_seconds: float | None) -> SendResult:
        """Answers a request; ClientError if it is none, SendFailed if the requester has left."""
        cluster = request.properties.get(names.CLUSTER)
        if not cluster or names.CORRELATION_ID not in request.properties:
            missing = names.CORRELATION_ID if cluster else names.CLUSTER
            raise ClientError(f"message {request.message_id} waits for no reply: it has no property {missing}")
        properties = {name: request.properties[name] for name in _COPIED if name in request.properties}
        out = self._outgoings.raw(
            cluster + REPLY_TOPIC_SUFFIX, body, {**properties, names.MSG_TYPE: "reply"}, kind="reply"
        )
        if len(body) >= self._settings.compress_msg_body_over_howmuch:
            out.body, out.sys_flag = await compressed(body, self._settings)
        return await self._sender.send(out, None, timeout_seconds)
