"""Request-reply: replies are pushed to the client that sent the request (ReplyMessageProcessor)."""

import logging
from time import perf_counter
from typing import Any

from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.admission import Admission, Sending, queue_of
from kerolox.broker.send.put import born_host
from kerolox.errors import AnswerError, RemotingError, SystemBusy, SystemFailure
from kerolox.message import hosts, property_names
from kerolox.message.ids import offset_id
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, put
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

_REPLY_TO_CLIENT = mark(property_names.REPLY_TO_CLIENT)
_PUSH_REPLY_TIME = mark(property_names.PUSH_REPLY_TIME)
_PUSH_SECONDS = 10.0
# A limit that RocketMQ does not have: bytes of replies that wait for clients to receive them.
_PUSHED_SIZE_MAX = 64 * 1024 * 1024


class ReplyMessageProcessor:
    def __init__(self, parts: BrokerParts, admission: Admission) -> None:
        self._config = parts.config
        self._admission = admission
        self._clients = parts.clients
        self._message_put = parts.message_put
        self._statistics = parts.statistics
        self._clock = parts.clock
        self._pushed_size = 0

    @handles(h.SendReplyMessageV2, request_queue="reply")
    async def reply_v2(self, request: Incoming[h.SendReplyMessageV2]) -> Reply[h.Sent]:
        return await self._reply(request)

    @handles(h.SendReplyMessage, request_queue="reply")
    async def reply(self, request: Incoming[h.SendReplyMessage]) -> Reply[h.Sent]:
        return await self._reply(request)

    async def _reply(self, request: Incoming[Any]) -> Reply[h.Sent]:
        header: Sending = request.header
        try:
            topic = await self._admission.topic_of(header)
        except AnswerError as error:
            return self._admission.refused(error)
        queue_id = queue_of(header, topic)
        properties = (header.properties or "").encode("utf-8", "surrogateescape")
        # Clients expect a message id and offset in every success, even if the reply is not stored.
        response = self._admission.sent("0", queue_id, 0, None)
        try:
            await self._push(request, properties)
        except AnswerError as error:
            log.warning("a reply was not delivered: %s", error)
            response = self._admission.refused(error)
        if self._config.store_reply_message_enable:
            await self._store(request, topic.topic_name, queue_id, properties, response.fields)
        return response

    async def _push(self, request: Incoming[Any], properties: bytes) -> None:
        """Send the reply to the requesting client; AnswerError if it was not received."""
        client_id = find(properties, _REPLY_TO_CLIENT).decode("utf-8", "replace")
        if not client_id:
            raise SystemFailure(f"reply message properties[{property_names.REPLY_TO_CLIENT}] is null")
        channel = self._clients.find_producer(client_id)
        if channel is None:
            raise SystemFailure(f"push reply message fail, channel of <{client_id}> not found.")
        size = len(request.body)
        if self._pushed_size and self._pushed_size + size > _PUSHED_SIZE_MAX:
            raise SystemBusy(f"{self._pushed_size} bytes of replies wait for clients, the limit is {_PUSHED_SIZE_MAX}")
        self._pushed_size += size
        try:
            await channel.connection.call(
                self._push_request(request, properties), request.body, timeout_seconds=_PUSH_SECONDS
            )
        except (RemotingError, AnswerError) as error:
            raise SystemFailure(f"push reply message to {client_id}fail.") from error
        finally:
            self._pushed_size -= size

    def _push_request(self, request: Incoming[Any], properties: bytes) -> h.PushReplyMessage:
        header: Sending = request.header
        now = self._clock.millis()
        return h.PushReplyMessage(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=put(properties, _PUSH_REPLY_TIME, b"%d" % now).decode("utf-8", "surrogateescape"),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=hosts.to_text(born_host(request.origin.remote)),
            store_host=hosts.to_text(self._message_put.store_host),
            store_timestamp=now,
        )

    async def _store(self, request: Incoming[Any], topic: str, queue_id: int, properties: bytes, sent: h.Sent) -> None:
        """Store the reply and fill in its offsets; a failure is only logged, since the reply was delivered."""
        header: Sending = request.header
        message = Message(
            topic,
            request.body,
            properties,
            queue_id,
            header.flag,
            header.sys_flag,
            header.born_timestamp,
            born_host(request.origin.remote),
            0,
            self._message_put.store_host,
            header.reconsume_times or 0,
        )
        began = perf_counter()
        try:
            appended, _ = await self._message_put.put(message)
        except AnswerError as error:
            log.warning("a reply was not stored: %s", error)
            return
        self._statistics.put(topic, 1, appended.end_offset - appended.physical_offset, perf_counter() - began)
        sent.msg_id = offset_id(self._message_put.store_host, appended.physical_offset)
        sent.queue_id, sent.queue_offset = queue_id, appended.queue_offset
