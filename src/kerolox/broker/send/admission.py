"""Admission of sends: topic creation, permissions and queue ids, and the response headers (SendMessageProcessor)."""

import random

from kerolox.broker.config import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.tables.system_topics import NOT_FOR_PRODUCERS, RETRY_PREFIX
from kerolox.broker.tables.topics import TopicTable, check_topic_name
from kerolox.errors import AnswerError, NoPermission, SystemFailure, TopicNotFound
from kerolox.runtime.clock import Clock
from kerolox.store.log.pending_acks import AckStatus
from kerolox.wire.bodies.topics import Perm, TopicConfig, TopicSysFlag
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

Sending = h.SendMessage | h.SendMessageV2


class Admission:
    def __init__(self, config: BrokerConfig, topics: TopicTable, clock: Clock) -> None:
        self._config = config
        self._topics = topics
        self._clock = clock

    async def topic_of(self, header: Sending) -> TopicConfig:
        """Return the topic of a message, auto-created if allowed; AnswerError if the message may not be sent."""
        topic = self._topics.get(header.topic)
        if topic is None:
            topic = await self._make_topic(header)
        self.check(header, topic)
        return topic

    async def _make_topic(self, header: Sending) -> TopicConfig:
        check_topic_name(header.topic)
        is_retry = header.topic.startswith(RETRY_PREFIX)
        topic = self._topics.create_from_template(
            header.topic, header.default_topic, header.default_topic_queue_nums, is_unit=bool(header.unit_mode)
        )
        if topic is None and is_retry:
            sys_flag = int(TopicSysFlag.UNIT_SUB) if header.unit_mode else 0
            topic = self._topics.create(header.topic, 1, sys_flag=sys_flag)
        if topic is None:
            raise TopicNotFound(f"topic[{header.topic}] not exist, apply first please!")
        await self._topics.file.save()
        return topic

    def check(self, header: Sending, topic: TopicConfig) -> None:
        config = self._config
        begin = config.start_accept_send_request_time_stamp
        if begin and begin > self._clock.millis():
            raise SystemFailure(f"broker unable to service, until {config.start_accept_send_request_time_stamp}")
        if topic.order and not config.broker_permission & Perm.WRITE:
            raise NoPermission(f"the broker[{config.broker_ip1}] sending message is forbidden")
        if header.topic in NOT_FOR_PRODUCERS:
            raise NoPermission(f"Sending message to topic[{header.topic}] is forbidden.")
        if header.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise InvalidParameter(
                f"request queueId[{header.queue_id}] is illegal, {topic.topic_name} {topic.write_queue_nums} queues"
            )

    def plain_queue_count(self, name: str) -> int:
        """Return the number of queues of a topic; 0 if `check` may refuse a message for more than its queue id."""
        topic, config = self._topics.topics.get(name), self._config
        is_plain = (
            topic is not None
            and not topic.order
            and not config.start_accept_send_request_time_stamp
            and name not in NOT_FOR_PRODUCERS
            and not name.startswith(RETRY_PREFIX)
        )
        return max(topic.write_queue_nums, topic.read_queue_nums) if topic is not None and is_plain else 0

    def sent(
        self,
        message_id: str,
        queue_id: int,
        queue_offset: int,
        unique_key: str | None,
        *,
        status: AckStatus = AckStatus.OK,
        recall_handle: str | None = None,
    ) -> Reply[h.Sent]:
        """Return the response with the position of a stored message."""
        sent = h.Sent(
            msg_id=message_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=unique_key,
            recall_handle=recall_handle,
            msg_region=self._config.region_id,
            trace_on="true" if self._config.trace_on else "false",
        )
        return Reply(sent, code=status.value)

    def refused(self, error: AnswerError) -> Reply[h.Sent]:
        """Return an error response, with the fields that Java's clients expect in it."""
        region = h.Sent(msg_region=self._config.region_id, trace_on="true" if self._config.trace_on else "false")
        return Reply(region, code=int(error.code), remark=error.remark)


def queue_of(header: Sending, topic: TopicConfig) -> int:
    """Return the requested queue id, or a random one if none is requested."""
    if header.queue_id >= 0:
        return header.queue_id
    return random.randrange(max(topic.write_queue_nums, 1))  # noqa: S311
