"""Replies to requests that came as messages: handed on to the client that waits for them."""

import logging
from time import perf_counter
from typing import Any

from kerolox.broker.admission import Admission, Sending, queue_of
from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing, born_host
from kerolox.errors import AnswerError, RemotingError, SystemBusy, SystemFailure
from kerolox.message import hosts, names
from kerolox.message.ids import offset_id
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, put
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

_REPLY_TO_CLIENT = mark(names.REPLY_TO_CLIENT)
_PUSH_REPLY_TIME = mark(names.PUSH_REPLY_TIME)
_PUSH_SECONDS = 10.0
# A bound the original does not have: bytes of replies that wait for clients to take them.
_PUSHED_SIZE_MAX = 64 * 1024 * 1024


class ReplyProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        admission: Admission,
        clients: Clients,
        storing: Storing,
        statistics: Statistics,
        clock: Clock,
    ) -> None:
        self._config = config
        self._admission = admission
        self._clients = clients
        self._storing = storing
        self._statistics = statistics
        self._clock = clock
        self._pushed_size = 0

    @handles(h.SendReplyMessageV2, lane="reply")
    async def reply_v2(self, request: Incoming[h.SendReplyMessageV2]) -> Reply[h.Sent]:
        return await self._reply(request)

    @handles(h.SendReplyMessage, lane="reply")
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
        # Clients read a place from every success, also where nothing is stored.
        answer = self._admission.sent("0", queue_id, 0, None, is_durable=True)
        try:
            await self._push(request, properties)
        except AnswerError as error:
            log.warning("a reply was not taken: %s", error)
            answer = self._admission.refused(error)
        if self._config.store_reply_message_enable:
            await self._keep(request, topic.topic_name, queue_id, properties, answer.fields)
        return answer

    async def _push(self, request: Incoming[Any], properties: bytes) -> None:
        """Hands the reply to who waits for it; AnswerError if it was not taken."""
        client_id = find(properties, _REPLY_TO_CLIENT).decode("utf-8", "replace")
        if not client_id:
            raise SystemFailure(f"reply message properties[{names.REPLY_TO_CLIENT}] is null")
        channel = self._clients.producer(client_id)
        if channel is None:
            raise SystemFailure(f"push reply message fail, channel of <{client_id}> not found.")
        size = len(request.body)
        if self._pushed_size and self._pushed_size + size > _PUSHED_SIZE_MAX:
            raise SystemBusy(f"{self._pushed_size} bytes of replies under way, at most {_PUSHED_SIZE_MAX} allowed")
        self._pushed_size += size
        try:
            await channel.connection.call(
                self._pushed(request, properties), request.body, timeout_seconds=_PUSH_SECONDS
            )
        except (RemotingError, AnswerError) as error:
            raise SystemFailure(f"push reply message to {client_id}fail.") from error
        finally:
            self._pushed_size -= size

    def _pushed(self, request: Incoming[Any], properties: bytes) -> h.PushReplyMessage:
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
            store_host=hosts.to_text(self._storing.store_host),
            store_timestamp=now,
        )

    async def _keep(
        self, request: Incoming[Any], topic: str, queue_id: int, properties: bytes, answered: h.Sent
    ) -> None:
        """Stores the reply and notes its place; that it could not be stored is no failure, for it was handed on."""
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
            self._storing.store_host,
            header.reconsume_times or 0,
        )
        began = perf_counter()
        try:
            appended, _ = await self._storing.put(message)
        except AnswerError as error:
            log.warning("a reply was not stored: %s", error)
            return
        self._statistics.put(topic, 1, appended.end_offset - appended.physical_offset, perf_counter() - began)
        answered.msg_id = offset_id(self._storing.store_host, appended.physical_offset)
        answered.queue_id, answered.queue_offset = queue_id, appended.queue_offset
