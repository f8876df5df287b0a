"""Messages that a consumer gives back: tried again later, or laid to the dead letters."""

import random

import msgspec

from kerolox.broker.bounds import NAME_SIZE_MAX, check_name
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.retries import DELAY_MARK, Retries, times_max
from kerolox.broker.statistics import Statistics
from kerolox.broker.storing import Storing
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.errors import AnswerError, NoPermission, SystemFailure
from kerolox.message import names
from kerolox.message.errors import RecordError
from kerolox.message.message import Message
from kerolox.message.properties import find, mark, put, remove
from kerolox.message.record import decode
from kerolox.remoting.routes import Incoming, handles
from kerolox.store.errors import StoreError
from kerolox.wire.bodies.topics import Perm, TopicSysFlag
from kerolox.wire.header import Empty
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

_WAIT = mark(names.WAIT)
_RETRY_TOPIC = mark(names.RETRY_TOPIC)
_ORIGIN_MESSAGE_ID = mark(names.ORIGIN_MESSAGE_ID)
_CRC = mark(names.CRC32)
# The level of a message that was tried once; each further time it waits for one level more.
_FIRST_LEVEL = 3


class SendBackProcessor:
    def __init__(self, config: BrokerConfig, retries: Retries, storing: Storing, statistics: Statistics) -> None:
        self._config = config
        self._retries = retries
        self._storing = storing
        self._statistics = statistics

    @handles(h.ConsumerSendMsgBack, lane="send")
    async def send_back(self, request: Incoming[h.ConsumerSendMsgBack]) -> Reply[Empty]:
        header = request.header
        check_name("origin topic", header.origin_topic and header.origin_topic.removeprefix(RETRY_PREFIX))
        group = self._retries.group(header.group)
        if not self._config.broker_permission & Perm.WRITE:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return Reply()
        sys_flag = int(TopicSysFlag.UNIT_SUB) if header.unit_mode else 0
        topic = await self._retries.topic(RETRY_PREFIX + group.group_name, group.retry_queue_nums, sys_flag)
        if not topic.perm & Perm.WRITE:
            raise NoPermission(f"the topic[{topic.topic_name}] sending message is forbidden")
        message = self._find(header.offset)
        queue_id, level = random.randrange(group.retry_queue_nums), header.delay_level  # noqa: S311
        is_dead = False
        if message.reconsume_times >= times_max(group, request.version, header.max_reconsume_times) or level < 0:
            topic = await self._retries.dead_letters(group.group_name)
            queue_id, level, is_dead = 0, 0, True
        elif level == 0:
            level = _FIRST_LEVEL + message.reconsume_times
        again = self._again(message, topic.topic_name, queue_id, level)
        await self._put(again)
        # It is counted under this name, which is a property that its producer may have set, of any length.
        tried_topic = find(again.properties, _RETRY_TOPIC)[:NAME_SIZE_MAX].decode("utf-8", "replace")
        self._statistics.add("SNDBCK_PUT_NUMS", tried_topic, group.group_name)
        if is_dead:
            self._statistics.add("SNDBCK2DLQ_TIMES", header.origin_topic or "null", group.group_name)
            self._statistics.add("DLQ_PUT_NUMS", tried_topic, group.group_name)
        return Reply()

    def _find(self, offset: int) -> Message:
        try:
            record = self._storing.store.reader.record_at(offset)
            if record is not None:
                return decode(record)
        except (RecordError, StoreError) as error:
            raise SystemFailure(f"look message by offset failed, {offset}: {error}") from error
        raise SystemFailure(f"look message by offset failed, {offset}")

    def _again(self, message: Message, topic: str, queue_id: int, level: int) -> Message:
        """Returns the message as it is stored once more; where it first was, and lay, it keeps."""
        # A checksum of the record it was would be wrong for the new one.
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
            store_host=self._storing.store_host,
            reconsume_times=message.reconsume_times + 1,
            prepared_transaction_offset=0,
        )

    async def _put(self, message: Message) -> None:
        try:
            await self._storing.put(message)
        except AnswerError as error:
            # Whatever the reason, consumers look for this code, and then send the message instead.
            raise SystemFailure(error.remark) from error
