"""Sends failed messages back to the broker, which redelivers them or makes them dead letters (sendMessageBack)."""

import logging
import random
from typing import Final

from kerolox.client import resource_names
from kerolox.client.messages import Received
from kerolox.client.session.session import Session
from kerolox.errors import ConnectFailed, KeroloxError
from kerolox.message import properties, sysflag
from kerolox.message import property_names as p
from kerolox.wire.headers.messages import ConsumerSendMsgBack, SendMessageV2

log = logging.getLogger(__name__)

DEAD_LETTER: Final = -1
# Java's default.
RECONSUME_TIMES_MAX: Final = 16
UNLIMITED: Final = 2**31 - 1
_TIMEOUT_SECONDS: Final = 5.0
_FIRST_DELAY_LEVEL: Final = 3


class SendBack:
    """Sends back the failed messages of a group."""

    def __init__(self, session: Session, group: str, reconsume_times_max: int) -> None:
        self._session = session
        self._group = group
        self._times_max = reconsume_times_max

    async def send_back(self, message: Received, delay_level: int = 0) -> bool:
        """Ask the broker to redeliver a message after a delay; return False if no broker accepted it."""
        record, options = message.record, self._session.options
        request = ConsumerSendMsgBack(
            offset=record.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=options.wrap(message.topic),
            unit_mode=options.unit_mode,
            max_reconsume_times=self._times_max,
        )
        try:
            address = self._session.routes.address(message.queue.broker_name)
            if address is None:
                raise ConnectFailed(f"the address of broker {message.queue.broker_name} is unknown")
            await self._session.call(address, request, timeout_seconds=_TIMEOUT_SECONDS)
        except KeroloxError as error:
            log.warning("%s was not sent back, sending a copy to the retry topic instead: %s", message, error)
            return await self.send_copy(message)
        return True

    async def send_copy(self, message: Received) -> bool:
        """Send a copy to the retry topic; the broker makes it a dead letter if it was retried too often."""
        topic = resource_names.retry_topic(self._group)
        try:
            queues = (await self._session.routes.get(topic)).write_queues
            if not queues:
                raise ConnectFailed(f"topic {topic} has no writable queue")
            queue = random.choice(queues)  # noqa: S311
            address = self._session.routes.address(queue.broker_name)
            if address is None:
                raise ConnectFailed(f"the address of broker {queue.broker_name} is unknown")
            request = self._copy(message, topic, queue.queue_id)
            await self._session.call(address, request, message.record.body, timeout_seconds=_TIMEOUT_SECONDS)
        except KeroloxError as error:
            log.warning("%s could not be sent to %s: %s", message, topic, error)
            return False
        return True

    def _copy(self, message: Received, topic: str, queue_id: int) -> SendMessageV2:
        record, options = message.record, self._session.options
        copied = dict(message.properties)
        copied.pop(p.TRAN_MSG, None)
        copied.setdefault(p.ORIGIN_MESSAGE_ID, message.message_id)
        copied[p.RETRY_TOPIC] = options.wrap(message.topic)
        copied[p.RECONSUME_TIME] = str(message.reconsume_times + 1)
        copied[p.MAX_RECONSUME_TIMES] = str(self._times_max)
        copied[p.DELAY] = str(_FIRST_DELAY_LEVEL + message.reconsume_times)
        return SendMessageV2(
            producer_group=resource_names.INNER_PRODUCER_GROUP,
            topic=topic,
            default_topic=resource_names.TEMPLATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue_id,
            # The stored body is copied as is, so the compression flags must stay.
            sys_flag=record.sys_flag & (sysflag.COMPRESSED | sysflag.COMPRESSION_MASK),
            born_timestamp=record.born_timestamp,
            flag=record.flag,
            properties=properties.to_bytes(copied).decode(),
            reconsume_times=message.reconsume_times + 1,
            unit_mode=options.unit_mode,
            max_reconsume_times=self._times_max,
            batch=False,
        )
