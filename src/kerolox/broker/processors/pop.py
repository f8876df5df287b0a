"""POP requests: popping, peeking, notifications, acks (PopMessageProcessor, AckMessageProcessor)."""

import asyncio
from time import perf_counter

from kerolox.broker.errors import InvalidParameter, PollingTimeout
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.acks import check_batches
from kerolox.broker.pop.assembly import Pop
from kerolox.broker.pop.long_polling import PolledQueue, PollingFull
from kerolox.broker.pop.receipt_handle import RETRY_V1, retry_topic
from kerolox.broker.pop.take import PopResult
from kerolox.broker.pull.message_filter import EVERYTHING, MessageFilter, Selector
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, SystemBusy, SystemFailure
from kerolox.message.records.record import check_topic
from kerolox.remoting.long_polling import WAIT_SECONDS_MAX, LongPolls, turn
from kerolox.remoting.router import Incoming, handles
from kerolox.store.queue.lookup import GetStatus
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.pop import BatchAcks
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.header import Empty
from kerolox.wire.headers import pop as h
from kerolox.wire.reply import Reply

# A request whose polling time ended longer ago than this is refused.
_LATE_MILLIS = 500
_COUNT_MAX = 32


class PopMessageProcessor:
    def __init__(self, parts: BrokerParts, pop: Pop, selector: Selector) -> None:
        self._config = parts.config
        self._store_config = parts.settings.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._pop = pop
        self._select = selector.of_request
        self._statistics = parts.statistics
        self._clock = parts.clock
        self._request_queue = parts.request_queues["pull"]

    @handles(h.PopMessage, request_queue="pull")
    async def pop(self, request: Incoming[h.PopMessage]) -> Reply[h.Popped]:
        header = request.header
        self._check_pop(header)
        message_filter = self._select(header.consumer_group, header.topic, header.exp, header.exp_type)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds_left(header)
        while True:
            if not request.connection.is_writable:
                # This client does not read its responses; another one shall get the messages meanwhile.
                self._pop.wake(header.topic, header.consumer_group, header.queue_id)
                await turn(self._request_queue, request.connection)
            with PolledQueue(self._pop.polling, header.topic, header.consumer_group, header.queue_id) as polled:
                result, response, body = await self._scan_and_pop(header, message_filter, polled)
                if result.batches:
                    if result.remaining:
                        self._pop.wake(header.topic, header.consumer_group, header.queue_id)
                    return Reply(response, body, remark=GetStatus.FOUND.value)
                left = deadline - loop.time()
                code = ResponseCode.POLLING_TIMEOUT
                if header.poll_time > 0 and left > 0:
                    if result.is_cut_short:
                        await asyncio.sleep(0)
                        continue
                    try:
                        # No message is missed: either nothing has suspended since the queues were looked at, or
                        # `polled` was entered before.
                        with LongPolls(self._request_queue, request.connection):
                            await polled.wait(min(left, self._until_visible(result)))
                        if not request.connection.is_closed:
                            continue
                    except (PollingFull, SystemBusy):
                        code = ResponseCode.POLLING_FULL
                    else:
                        self._pop.wake(header.topic, header.consumer_group, header.queue_id)
                return Reply(response, code=code.value, remark=GetStatus.NO_MESSAGE_IN_QUEUE.value)

    async def _scan_and_pop(
        self, header: h.PopMessage, message_filter: MessageFilter, polled: PolledQueue
    ) -> tuple[PopResult, h.Popped, bytes]:
        """Scan the queues until one has messages, yielding to other tasks between portions of many queues."""
        began = perf_counter()
        scan = self._pop.service.scan(header)
        result, response, body = await self._pop.service.pop(header, message_filter, scan)
        while not result.batches and not scan.is_finished:
            polled.enter()
            await asyncio.sleep(0)
            before = result
            result, response, body = await self._pop.service.pop(header, message_filter, scan)
            result.merge_scan_state(before)
        self._count(header, result, perf_counter() - began)
        return result, response, body

    def _count(self, header: h.PopMessage, result: PopResult, seconds: float) -> None:
        group = header.consumer_group
        if not result.batches:
            self._statistics.got(header.topic, group, 0, 0, seconds)
        for batch in result.batches:
            self._statistics.got(batch.topic, group, len(batch.records), sum(map(len, batch.records)), seconds)
        if result.batches and not header.order:
            self._statistics.add("GROUP_CK_NUMS", header.topic, group, len(result.batches))

    def _seconds_left(self, header: h.PopMessage | h.Notification) -> float:
        """Return how long the request may still wait."""
        now = self._clock.millis()
        return min(((header.born_time or now) + header.poll_time - now) / 1000, WAIT_SECONDS_MAX)

    def _until_visible(self, result: PopResult) -> float:
        if not result.visible_time:
            return float("inf")
        return max(0.001, (result.visible_time - self._clock.millis()) / 1000)

    def _check_pop(self, header: h.PopMessage) -> None:
        prefix = f"the broker[{self._config.broker_ip1}] pop message"
        now = self._clock.millis()
        if now - (header.born_time or now) - header.poll_time > _LATE_MILLIS:
            raise PollingTimeout(f"{prefix} is timeout too much")
        if not self._config.broker_permission & Perm.READ:
            raise NoPermission(f"{prefix} is forbidden")
        if header.max_msg_nums > _COUNT_MAX:
            raise InvalidParameter(f"{prefix}'s num is greater than 32")
        if not self._store_config.timer_wheel_enable:
            raise SystemFailure(f"{prefix} is forbidden because timerWheelEnable is false")
        if not 0 <= header.invisible_time <= self._store_config.timer_max_delay_sec * 1000:
            raise InvalidParameter(
                f"invisibleTime {header.invisible_time} ms is not between 0 and "
                f"{self._store_config.timer_max_delay_sec} s (timerMaxDelaySec)"
            )
        self._check(header.topic, header.queue_id, header.consumer_group)
        # The name of the retry topic must not be too long.
        check_topic(retry_topic(header.topic, header.consumer_group, RETRY_V1))

    def _check(self, topic: str, queue_id: int, group: str) -> None:
        config = self._topics.find(topic)
        if not config.perm & Perm.READ:
            raise NoPermission(f"the topic[{topic}] peeking message is forbidden")
        if queue_id >= config.read_queue_nums:
            raise InvalidParameter(
                f"queueId[{queue_id}] is illegal, topic:[{topic}] "
                f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[{group}]"
            )
        if not self._groups.find(group).consume_enable:
            raise NoPermission(f"subscription group no permission, {group}")

    def _check_peek(self, header: h.PeekMessage | h.Notification | h.PollingInfo) -> None:
        if not self._config.broker_permission & Perm.READ:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] peeking message is forbidden")
        self._check(header.topic, header.queue_id, header.consumer_group)

    @handles(h.PeekMessage, request_queue="pull")
    async def peek(self, request: Incoming[h.PeekMessage]) -> Reply[h.Popped]:
        header = request.header
        self._check_peek(header)
        began = perf_counter()
        scan = self._pop.peek.scan(header)
        records, remaining = await self._pop.peek.peek(header, scan)
        while not records and not scan.is_finished:
            await asyncio.sleep(0)
            records, remaining = await self._pop.peek.peek(header, scan)
        size = sum(map(len, records))
        self._statistics.got(header.topic, header.consumer_group, len(records), size, perf_counter() - began)
        response = h.Popped(pop_time=self._clock.millis(), invisible_time=0, revive_qid=0, rest_num=remaining)
        if records:
            return Reply(response, b"".join(records), remark=GetStatus.FOUND.value)
        code, remark = ResponseCode.PULL_NOT_FOUND.value, GetStatus.NO_MESSAGE_IN_QUEUE.value
        return Reply(response, code=code, remark=remark)

    @handles(h.Notification, request_queue="pull")
    async def notify(self, request: Incoming[h.Notification]) -> Reply[h.Notified]:
        header = request.header
        self._check_peek(header)
        message_filter = EVERYTHING
        if header.exp and header.exp_type and self._config.use_message_filter_for_notification:
            message_filter = self._select(header.consumer_group, header.topic, header.exp, header.exp_type)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds_left(header)
        while True:
            with PolledQueue(
                self._pop.notification_polling, header.topic, header.consumer_group, header.queue_id
            ) as polled:
                has_message, visible_time = await self._has_message(header, message_filter, polled)
                left = deadline - loop.time()
                if has_message or header.poll_time <= 0 or left <= 0:
                    return Reply(h.Notified(has_msg=has_message, polling_full=False))
                if visible_time:
                    left = min(left, max(0.001, (visible_time - self._clock.millis()) / 1000))
                try:
                    with LongPolls(self._request_queue, request.connection):
                        await polled.wait(left)
                except (PollingFull, SystemBusy):
                    return Reply(h.Notified(has_msg=False, polling_full=True))

    async def _has_message(
        self, header: h.Notification, message_filter: MessageFilter, polled: PolledQueue
    ) -> tuple[bool, int]:
        scan = self._pop.peek.scan(header)
        has_message, visible_time = self._pop.peek.has_message(header, message_filter, scan)
        while not has_message and not scan.is_finished:
            polled.enter()
            await asyncio.sleep(0)
            has_message, visible_next = self._pop.peek.has_message(header, message_filter, scan)
            visible_time = min(filter(None, (visible_time, visible_next)), default=0)
        return has_message, visible_time

    @handles(h.PollingInfo, request_queue="pull")
    def polling_info(self, request: Incoming[h.PollingInfo]) -> Reply[h.PollingCounted]:
        header = request.header
        self._check_peek(header)
        count = self._pop.polling.waiting(header.topic, header.consumer_group, header.queue_id)
        return Reply(h.PollingCounted(polling_num=count))

    @handles(h.AckMessage, request_queue="ack")
    async def ack(self, request: Incoming[h.AckMessage]) -> Reply[Empty]:
        await self._pop.acks.ack(request.header)
        return Reply()

    @handles(h.BatchAckMessage, request_queue="ack")
    async def batch_ack(self, request: Incoming[h.BatchAckMessage]) -> Reply[Empty]:
        body = BatchAcks.decode(request.body, REQUEST) if request.body else BatchAcks()
        check_batches(body)
        await self._pop.acks.batch(body.broker_name, body.batches)
        return Reply()

    @handles(h.ChangeMessageInvisibleTime, request_queue="ack")
    async def change(self, request: Incoming[h.ChangeMessageInvisibleTime]) -> Reply[h.InvisibleTimeChanged]:
        return Reply(await self._pop.acks.change(request.header))

    @handles(h.PopRollback)
    def roll_back(self, request: Incoming[h.PopRollback]) -> Reply[Empty]:
        """Do nothing: popped messages have their checkpoints in the revive log already."""
        return Reply()
