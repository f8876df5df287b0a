"""Takes back messages that wait for their time."""

from time import perf_counter

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import IllegalOperation, ServiceNotAvailable
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing, born_host
from kerolox.broker.topics import TopicTable
from kerolox.errors import AnswerError, NoPermission, SystemFailure, TopicNotFound
from kerolox.message import names
from kerolox.message.properties import find, mark
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.store.errors import TimerIllegal
from kerolox.store.timer.recall import recall
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_UNIQ_KEY = mark(names.UNIQ_KEY)
_UNAVAILABLE = "recall failed, broker service not available"


class RecallProcessor:
    def __init__(
        self, config: BrokerConfig, topics: TopicTable, storing: Storing, statistics: Statistics, clock: Clock
    ) -> None:
        self._config = config
        self._topics = topics
        self._storing = storing
        self._statistics = statistics
        self._clock = clock

    @handles(h.RecallMessage, lane="send")
    async def recall(self, request: Incoming[h.RecallMessage]) -> Reply[h.Recalled]:
        header = request.header
        self._check(header)
        try:
            message = recall(
                header.recall_handle,
                self._storing.store.config,
                self._clock.millis(),
                topic=header.topic,
                broker_name=self._config.broker_name,
                producer_group=header.producer_group or "",
                born_host=born_host(request.connection.remote),
                store_host=self._storing.store_host,
            )
        except TimerIllegal as error:
            raise IllegalOperation(str(error)) from error
        began = perf_counter()
        try:
            draft = self._storing.draft(message)
            appended, _ = await self._storing.put_draft(draft)
        except AnswerError as error:
            raise SystemFailure("recall failed, execute error") from error
        size = appended.end_offset - appended.physical_offset
        self._statistics.put(draft.topic, 1, size, perf_counter() - began)
        return Reply(h.Recalled(msg_id=find(message.properties, _UNIQ_KEY).decode("utf-8", "replace")))

    def _check(self, header: h.RecallMessage) -> None:
        config = self._config
        if not config.recall_message_enable:
            raise NoPermission("recall failed, operation is forbidden")
        if self._clock.millis() < config.start_accept_send_request_time_stamp:
            raise ServiceNotAvailable(_UNAVAILABLE)
        if self._topics.get(header.topic) is None:
            raise TopicNotFound(f"recall failed, the topic[{header.topic}] not exist")
