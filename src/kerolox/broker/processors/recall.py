"""Recall of timed messages that are not delivered yet (RecallMessageProcessor)."""

from time import perf_counter

from kerolox.broker.errors import IllegalOperation, ServiceNotAvailable
from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.put import born_host
from kerolox.errors import AnswerError, NoPermission, SystemFailure, TopicNotFound
from kerolox.message import property_names
from kerolox.message.properties import find, mark
from kerolox.remoting.router import Incoming, handles
from kerolox.store.errors import TimerIllegal
from kerolox.store.timer.recall import recall
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(property_names.UNIQ_KEY)
_UNAVAILABLE = "recall failed, broker service not available"


class RecallMessageProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._config = parts.config
        self._topics = parts.topics
        self._message_put = parts.message_put
        self._statistics = parts.statistics
        self._clock = parts.clock

    @handles(h.RecallMessage, request_queue="send")
    async def recall(self, request: Incoming[h.RecallMessage]) -> Reply[h.Recalled]:
        response = h.Recalled(msg_region=self._config.region_id)
        try:
            response.msg_id = await self._recall(request)
        except AnswerError as error:
            return Reply(response, code=int(error.code), remark=error.remark)
        return Reply(response)

    async def _recall(self, request: Incoming[h.RecallMessage]) -> str:
        """Return the id of the recalled message; AnswerError if it cannot be recalled."""
        header = request.header
        self._check(header)
        try:
            message = recall(
                header.recall_handle,
                self._message_put.store.config,
                self._clock.millis(),
                topic=header.topic,
                broker_name=self._config.broker_name,
                producer_group=header.producer_group or "",
                born_host=born_host(request.connection.remote),
                store_host=self._message_put.store_host,
            )
        except TimerIllegal as error:
            raise IllegalOperation(str(error)) from error
        began = perf_counter()
        try:
            append = self._message_put.draft(message)
            appended, _ = await self._message_put.put_draft(append)
        except AnswerError as error:
            raise SystemFailure("recall failed, execute error") from error
        size = appended.end_offset - appended.physical_offset
        self._statistics.put(append.topic, 1, size, perf_counter() - began)
        return find(message.properties, _UNIQ_KEY).decode("utf-8", "replace")

    def _check(self, header: h.RecallMessage) -> None:
        config = self._config
        if not config.recall_message_enable:
            raise NoPermission("recall failed, operation is forbidden")
        if self._clock.millis() < config.start_accept_send_request_time_stamp:
            raise ServiceNotAvailable(_UNAVAILABLE)
        if self._topics.get(header.topic) is None:
            raise TopicNotFound(f"recall failed, the topic[{header.topic}] not exist")
