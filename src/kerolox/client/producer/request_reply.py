"""Request and reply: sends a message and waits for a reply message (RequestFutureHolder)."""

import asyncio
import uuid

from kerolox.client.errors import ClientError, RequestTimeout
from kerolox.client.messages import Message, Received, SendResult
from kerolox.client.producer.compression import compress_body
from kerolox.client.producer.encoding import MessageEncoder
from kerolox.client.producer.queue_selection import Selector
from kerolox.client.producer.send import Sender
from kerolox.client.producer.settings import ProducerSettings
from kerolox.client.resource_names import REPLY_TOPIC_SUFFIX
from kerolox.client.session.session import Session
from kerolox.message import property_names

_COPIED = (property_names.CORRELATION_ID, property_names.REPLY_TO_CLIENT, property_names.TTL)


class RequestReply:
    """Sends requests and replies.

    Brokers push a reply over the connection on which the requester is registered, so it registers before it asks.
    """

    def __init__(self, session: Session, sender: Sender, encoder: MessageEncoder, settings: ProducerSettings) -> None:
        self._session = session
        self._sender = sender
        self._encoder = encoder
        self._settings = settings

    async def request(self, message: Message, selector: Selector | None, timeout_seconds: float) -> Received:
        """Return the reply; raise RequestTimeout if there is none in time, SendFailed if the request was not sent."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        await self._register(self._encoder.topic(message.topic), deadline)
        correlation_id = str(uuid.uuid4())
        out = self._encoder.encode(
            message,
            {
                property_names.CORRELATION_ID: correlation_id,
                property_names.REPLY_TO_CLIENT: self._session.client_id,
                property_names.TTL: str(round(timeout_seconds * 1000)),
            },
        )
        if len(out.body) >= self._settings.compress_msg_body_over_howmuch:
            out.body, out.sys_flag = await compress_body(out.body, self._settings)
        reply: asyncio.Future[Received] = loop.create_future()
        self._session.pending_replies[correlation_id] = reply
        try:
            async with asyncio.timeout_at(deadline):
                await self._sender.send(out, selector, max(deadline - loop.time(), 0.001))
                return await reply
        except TimeoutError as error:
            raise RequestTimeout(
                f"no reply to {out.message_id} of topic {message.topic!r} within {timeout_seconds:.3g} s"
            ) from error
        finally:
            del self._session.pending_replies[correlation_id]

    async def _register(self, topic: str, deadline: float) -> None:
        """Register with all brokers that may push the reply."""
        publish_info = self._sender.publish_info
        queues = publish_info.known(topic) or await publish_info.fetch(topic, deadline)
        for cluster in {broker.cluster for broker in queues.route.data.broker_datas if broker.cluster}:
            await publish_info.watch_reply_topic(cluster + REPLY_TOPIC_SUFFIX)
        await self._session.ensure_registered()

    async def reply(self, request: Received, body: bytes, timeout_seconds: float | None) -> SendResult:
        """Reply to a request; raise ClientError if it is not one, SendFailed if the requester is gone."""
        cluster = request.properties.get(property_names.CLUSTER)
        if not cluster or property_names.CORRELATION_ID not in request.properties:
            missing = property_names.CORRELATION_ID if cluster else property_names.CLUSTER
            raise ClientError(f"message {request.message_id} does not expect a reply: it has no property {missing}")
        properties = {name: request.properties[name] for name in _COPIED if name in request.properties}
        out = self._encoder.encode_unchecked(
            cluster + REPLY_TOPIC_SUFFIX, body, {**properties, property_names.MSG_TYPE: "reply"}, kind="reply"
        )
        if len(body) >= self._settings.compress_msg_body_over_howmuch:
            out.body, out.sys_flag = await compress_body(body, self._settings)
        return await self._sender.send(out, None, timeout_seconds)
