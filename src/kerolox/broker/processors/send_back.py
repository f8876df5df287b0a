"""Messages that consumers send back: retried later, or moved to the dead letter queue (SendMessageProcessor)."""

import random

import msgspec

from kerolox.broker.client_limits import NAME_SIZE_MAX, check_name
from kerolox.broker.parts import BrokerParts
from kerolox.broker.send.retry_topics import DELAY_MARK, RetryTopics, times_max
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import AnswerError, NoPermission, SystemFailure
from kerolox.message import property_names
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, put, remove
from kerolox.message.records.record import decode
from kerolox.remoting.router import Incoming, handles
from kerolox.store.errors import StoreError
from kerolox.wire.bodies.topics import Perm, TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_WAIT = mark(property_names.WAIT)
_RETRY_TOPIC = mark(property_names.RETRY_TOPIC)
_ORIGIN_MESSAGE_ID = mark(property_names.ORIGIN_MESSAGE_ID)
_CRC = mark(property_names.CRC32)
# Delay level of the first retry; each further retry waits one level longer.
_FIRST_LEVEL = 3


class SendBackProcessor:
    def __init__(self, parts: BrokerParts, retry_topics: RetryTopics) -> None:
        self._config = parts.config
        self._retry_topics = retry_topics
        self._message_put = parts.message_put
        self._statistics = parts.statistics

    @handles(h.ConsumerSendMsgBack, request_queue="send")
    async def send_back(self, request: Incoming[h.ConsumerSendMsgBack]) -> Reply[Empty]:
        header = request.header
        check_name("origin topic", header.origin_topic and header.origin_topic.removeprefix(RETRY_PREFIX))
        group = self._retry_topics.group(header.group)
        if not self._config.broker_permission & Perm.WRITE:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return Reply()
        sys_flag = int(TopicSysFlag.UNIT_SUB) if header.unit_mode else 0
        topic = await self._retry_topics.topic(RETRY_PREFIX + group.group_name, group.retry_queue_nums, sys_flag)
        if not topic.perm & Perm.WRITE:
            raise NoPermission(f"the topic[{topic.topic_name}] sending message is forbidden")
        message = await self._find(header.offset)
        queue_id, level = random.randrange(group.retry_queue_nums), header.delay_level  # noqa: S311
        is_dead = False
        if message.reconsume_times >= times_max(group, request.version, header.max_reconsume_times) or level < 0:
            topic = await self._retry_topics.dead_letters(group.group_name)
            queue_id, level, is_dead = 0, 0, True
        elif level == 0:
            level = _FIRST_LEVEL + message.reconsume_times
        retried = self._retried(message, topic.topic_name, queue_id, level)
        await self._put(retried)
        # A label of the counters; producers can set this property to text of any length.
        origin_topic = find(retried.properties, _RETRY_TOPIC)[:NAME_SIZE_MAX].decode("utf-8", "replace")
        self._statistics.add("SNDBCK_PUT_NUMS", origin_topic, group.group_name)
        if is_dead:
            self._statistics.add("SNDBCK2DLQ_TIMES", header.origin_topic or "null", group.group_name)
            self._statistics.add("DLQ_PUT_NUMS", origin_topic, group.group_name)
        return Reply()

    async def _find(self, offset: int) -> Message:
        try:
            record = await self._message_put.store.lookup.record_at(offset)
            if record is not None:
                return decode(record)
        except (RecordError, StoreError) as error:
            raise SystemFailure(f"look message by offset failed, {offset}: {error}") from error
        raise SystemFailure(f"look message by offset failed, {offset}")

    def _retried(self, message: Message, topic: str, queue_id: int, level: int) -> Message:
        """Return the copy of a message for the retry topic, with the topic and id of the first one."""
        # The checksum of the old record does not match the new one.
        properties = remove(message.properties, _CRC)
        if not find(properties, _RETRY_TOPIC):
            properties = put(properties, _RETRY_TOPIC, message.topic.encode())
        if not find(properties, _ORIGIN_MESSAGE_ID):
            properties = put(properties, _ORIGIN_MESSAGE_ID, message.offset_id.encode())
        properties = put(put(properties, _WAIT, b"false"), DELAY_MARK, b"%d" % level)
        return msgspec.structs.replace(
            message,
            topic=topic,
            queue_id=queue_id,
            properties=properties,
            store_host=self._message_put.store_host,
            reconsume_times=message.reconsume_times + 1,
            prepared_transaction_offset=0,
        )

    async def _put(self, message: Message) -> None:
        try:
            await self._message_put.put(message)
        except AnswerError as error:
            # On this code, consumers fall back to sending the message to the retry topic themselves.
            raise SystemFailure(error.remark) from error
