"""Popping over the wire: asking for messages, acking them, and what else concerns them."""

import asyncio
from collections.abc import Callable
from time import perf_counter

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import InvalidParameter, PollingTimeout
from kerolox.broker.groups import GroupTable
from kerolox.broker.pop.names import RETRY_V1, retry_topic
from kerolox.broker.pop.parts import Pop
from kerolox.broker.pop.polling import Place, PollingFull
from kerolox.broker.pop.taking import Selection, Taken
from kerolox.broker.statistics import Statistics
from kerolox.broker.topics import TopicTable
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, SystemBusy, SystemFailure
from kerolox.message.record import check_topic
from kerolox.remoting.parking import WAIT_SECONDS_MAX, Parked, turn
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime.clock import Clock
from kerolox.runtime.lanes import Lane
from kerolox.store.configuration import StoreConfig
from kerolox.store.queue.pull import GetStatus
from kerolox.wire.bodies.pop import BatchAcks
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.header import Empty
from kerolox.wire.headers import pop as h
from kerolox.wire.reply import Reply

_LATE_MILLIS = 500
_COUNT_MAX = 32

# Of group, topic, expression and its type, what messages must fulfil.
Select = Callable[[str, str, str | None, str | None], Selection]


class PopProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        topics: TopicTable,
        groups: GroupTable,
        pop: Pop,
        statistics: Statistics,
        clock: Clock,
        select: Select,
        lane: Lane,
    ) -> None:
        self._config = config
        self._store_config = store_config
        self._topics = topics
        self._groups = groups
        self._popping = pop.popping
        self._peeking = pop.peeking
        self._acks = pop.acks
        self._polling = pop.polling
        self._notifying = pop.notifying
        self._statistics = statistics
        self._clock = clock
        self._select = select
        self._lane = lane
        self._popping.on_rest = self._wake

    def _wake(self, topic: str, group: str, queue_id: int) -> None:
        self._polling.wake_all(topic, group, queue_id)
        self._notifying.wake_all(topic, group, queue_id)

    # Messages

    @handles(h.PopMessage, lane="pull")
    async def pop(self, request: Incoming[h.PopMessage]) -> Reply[h.Popped]:
        header = request.header
        self._check_pop(header)
        selection = self._select(header.consumer_group, header.topic, header.exp, header.exp_type)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds(header)
        while True:
            if not request.connection.is_writable:
                # Whoever reads should have it sooner.
                self._wake(header.topic, header.consumer_group, header.queue_id)
                await turn(self._lane, request.connection)
            with Place(self._polling, header.topic, header.consumer_group, header.queue_id) as place:
                taken, answer, body = await self._look(header, selection, place)
                if taken.parts:
                    if taken.rest:
                        self._wake(header.topic, header.consumer_group, header.queue_id)
                    return Reply(answer, body, remark=GetStatus.FOUND.value)
                left = deadline - loop.time()
                code = ResponseCode.POLLING_TIMEOUT
                if header.poll_time > 0 and left > 0:
                    if taken.is_cut_short:
                        await asyncio.sleep(0)
                        continue
                    try:
                        # Nobody had a turn since the queues were looked at, or the place was entered before: what
                        # comes from now on wakes it.
                        with Parked(self._lane, request.connection):
                            await place.wait(min(left, self._until_visible(taken)))
                        if not request.connection.is_closed:
                            continue
                    except (PollingFull, SystemBusy):
                        code = ResponseCode.POLLING_FULL
                    else:
                        self._wake(header.topic, header.consumer_group, header.queue_id)
                return Reply(answer, code=code.value, remark=GetStatus.NO_MESSAGE_IN_QUEUE.value)

    async def _look(self, header: h.PopMessage, selection: Selection, place: Place) -> tuple[Taken, h.Popped, bytes]:
        """Goes through the queues until there is something; where they are many, others have turns in between."""
        began = perf_counter()
        walk = self._popping.walk(header)
        taken, answer, body = await self._popping.pop(header, selection, walk)
        while not taken.parts and not walk.is_over:
            place.enter()
            await asyncio.sleep(0)
            before = taken
            taken, answer, body = await self._popping.pop(header, selection, walk)
            taken.follow(before)
        self._count(header, taken, perf_counter() - began)
        return taken, answer, body

    def _count(self, header: h.PopMessage, taken: Taken, seconds: float) -> None:
        group = header.consumer_group
        if not taken.parts:
            self._statistics.got(header.topic, group, 0, 0, seconds)
        for part in taken.parts:
            self._statistics.got(part.topic, group, len(part.records), sum(map(len, part.records)), seconds)
        if taken.parts and not header.order:
            self._statistics.add("GROUP_CK_NUMS", header.topic, group, len(taken.parts))

    def _seconds(self, header: h.PopMessage | h.Notification) -> float:
        """Returns how long one may wait from now on."""
        now = self._clock.millis()
        return min(((header.born_time or now) + header.poll_time - now) / 1000, WAIT_SECONDS_MAX)

    def _until_visible(self, taken: Taken) -> float:
        if not taken.visible_time:
            return float("inf")
        return max(0.001, (taken.visible_time - self._clock.millis()) / 1000)

    def _check_pop(self, header: h.PopMessage) -> None:
        place = f"the broker[{self._config.broker_ip1}] pop message"
        now = self._clock.millis()
        if now - (header.born_time or now) - header.poll_time > _LATE_MILLIS:
            raise PollingTimeout(f"{place} is timeout too much")
        if not self._config.broker_permission & Perm.READ:
            raise NoPermission(f"{place} is forbidden")
        if header.max_msg_nums > _COUNT_MAX:
            raise InvalidParameter(f"{place}'s num is greater than 32")
        if not self._store_config.timer_wheel_enable:
            raise SystemFailure(f"{place} is forbidden because timerWheelEnable is false")
        if not 0 <= header.invisible_time <= self._store_config.timer_max_delay_sec * 1000:
            raise InvalidParameter(
                f"an invisible time of {header.invisible_time} ms, at most {self._store_config.timer_max_delay_sec} s"
            )
        self._check(header.topic, header.queue_id, header.consumer_group)
        # What comes again goes to a topic of its own, whose name must fit.
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

    @handles(h.PeekMessage, lane="pull")
    async def peek(self, request: Incoming[h.PeekMessage]) -> Reply[h.Popped]:
        header = request.header
        self._check_peek(header)
        began = perf_counter()
        walk = self._peeking.walk(header)
        records, rest = self._peeking.peek(header, walk)
        while not records and not walk.is_over:
            await asyncio.sleep(0)
            records, rest = self._peeking.peek(header, walk)
        size = sum(map(len, records))
        self._statistics.got(header.topic, header.consumer_group, len(records), size, perf_counter() - began)
        answer = h.Popped(pop_time=self._clock.millis(), invisible_time=0, revive_qid=0, rest_num=rest)
        if records:
            return Reply(answer, b"".join(records), remark=GetStatus.FOUND.value)
        code, remark = ResponseCode.PULL_NOT_FOUND.value, GetStatus.NO_MESSAGE_IN_QUEUE.value
        return Reply(answer, code=code, remark=remark)

    @handles(h.Notification, lane="pull")
    async def notify(self, request: Incoming[h.Notification]) -> Reply[h.Notified]:
        header = request.header
        self._check_peek(header)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._seconds(header)
        while True:
            with Place(self._notifying, header.topic, header.consumer_group, header.queue_id) as place:
                has_message, visible_time = await self._has_message(header, place)
                left = deadline - loop.time()
                if has_message or header.poll_time <= 0 or left <= 0:
                    return Reply(h.Notified(has_msg=has_message, polling_full=False))
                if visible_time:
                    left = min(left, max(0.001, (visible_time - self._clock.millis()) / 1000))
                try:
                    with Parked(self._lane, request.connection):
                        await place.wait(left)
                except (PollingFull, SystemBusy):
                    return Reply(h.Notified(has_msg=False, polling_full=True))

    async def _has_message(self, header: h.Notification, place: Place) -> tuple[bool, int]:
        walk = self._peeking.walk(header)
        has_message, visible_time = self._peeking.has_message(header, walk)
        while not has_message and not walk.is_over:
            place.enter()
            await asyncio.sleep(0)
            has_message, visible_next = self._peeking.has_message(header, walk)
            visible_time = min(filter(None, (visible_time, visible_next)), default=0)
        return has_message, visible_time

    @handles(h.PollingInfo, lane="pull")
    def polling_info(self, request: Incoming[h.PollingInfo]) -> Reply[h.PollingCounted]:
        header = request.header
        self._check_peek(header)
        count = self._polling.waiting(header.topic, header.consumer_group, header.queue_id)
        return Reply(h.PollingCounted(polling_num=count))

    # Acks

    @handles(h.AckMessage, lane="ack")
    async def ack(self, request: Incoming[h.AckMessage]) -> Reply[Empty]:
        await self._acks.ack(request.header)
        return Reply()

    @handles(h.BatchAckMessage, lane="ack")
    async def batch_ack(self, request: Incoming[h.BatchAckMessage]) -> Reply[Empty]:
        body = BatchAcks.decode(request.body) if request.body else BatchAcks()
        await self._acks.batch(body.broker_name, body.batches)
        return Reply()

    @handles(h.ChangeMessageInvisibleTime, lane="ack")
    async def change(self, request: Incoming[h.ChangeMessageInvisibleTime]) -> Reply[h.InvisibleTimeChanged]:
        return Reply(await self._acks.change(request.header))

    @handles(h.PopRollback)
    def roll_back(self, request: Incoming[h.PopRollback]) -> Reply[Empty]:
        """Checkpoints are in the revive log already."""
        return Reply()
