"""Pulling: what a consumer asks for, now or when it comes."""

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import Any

from kerolox.broker.bulk import BulkPulls
from kerolox.broker.clients import BROADCASTING, Clients
from kerolox.broker.configuration import MASTER_ID, BrokerConfig
from kerolox.broker.errors import (
    InvalidParameter,
    SubscriptionNotFound,
    SubscriptionNotLatest,
)
from kerolox.broker.falling import FallBehind
from kerolox.broker.groups import GroupTable
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.selection import Selection, Selector
from kerolox.broker.statistics import Statistics
from kerolox.broker.topics import TopicTable
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, SystemBusy
from kerolox.remoting.parking import WAIT_SECONDS_MAX, Parked, turn
from kerolox.remoting.routes import Incoming, Written, handles
from kerolox.runtime.lanes import Lane
from kerolox.store.log.segments import Brought, NotInMemory
from kerolox.store.queue.pull import PULL_SIZE_MAX, GetStatus, Got, PullBounds
from kerolox.store.store import Store
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.command import Answer, answer_in_parts, answer_template
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

COMMIT_OFFSET_BIT, SUSPEND_BIT, SUBSCRIPTION_BIT, CLASS_FILTER_BIT = 0x1, 0x2, 0x4, 0x8

# A plain number, for the pull that costs most is the one that is asked most.
_READ = Perm.READ.value

_NOTHING: Brought = {}

# How most pulls are answered, to be filled in.
_FOUND = GetStatus.FOUND
_FOUND_HEADER = answer_template(h.PULLED_FIELDS, b"FOUND")

Pulling = Reply[h.Pulled] | Written[h.Pulled] | Awaitable[Reply[h.Pulled]]

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class PullProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        selector: Selector,
        statistics: Statistics,
        behind: FallBehind,
        lane: Lane,
        lite_lane: Lane,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._selector = selector
        self._statistics = statistics
        self._behind = behind
        self._lane, self._lite_lane = lane, lite_lane
        self._bulk = BulkPulls(store.config)

    @handles(h.PullMessage, lane="pull")
    def pull(self, request: Incoming[h.PullMessage]) -> Pulling:
        return self._pull(request, self._lane)

    @handles(h.LitePullMessage, lane="litePull")
    def lite_pull(self, request: Incoming[h.LitePullMessage]) -> Pulling:
        if not self._config.lite_pull_message_enable:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] for lite pull consumer is forbidden")
        return self._pull(request, self._lite_lane)

    def _pull(self, request: Incoming[Any], lane: Lane) -> Pulling:
        header: h.PullMessage = request.header
        group = self._check(header)
        selection = self._select(header, group)
        if header.sys_flag & COMMIT_OFFSET_BIT:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        bounds = None
        if header.max_msg_bytes is not None and self._bulk.admits(request.connection, header.max_msg_bytes):
            bounds = self._store.reader.bulk_bounds
        try:
            got = self._get(header, selection, header.queue_offset, bounds)
        except NotInMemory as missing:
            return self._pull_from_disk(request, selection, bounds, missing, lane)
        if got.status is _FOUND and request.is_plain:
            return Written(found_answer(request.opaque, got))
        reply = self._reply(header, got)
        if reply.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_BIT:
            # It is looked for once more before it waits, and counts as one that found nothing.
            self._statistics.missed -= 1
            return self._wait(request, selection, lane)
        return reply

    async def _pull_from_disk(
        self,
        request: Incoming[Any],
        selection: Selection,
        bounds: PullBounds | None,
        missing: NotInMemory,
        lane: Lane,
    ) -> Reply[h.Pulled]:
        header: h.PullMessage = request.header
        if not request.connection.is_writable:
            await turn(lane, request.connection)
        reply = self._reply(header, await self._bring(header, selection, header.queue_offset, bounds, missing))
        if reply.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_BIT:
            self._statistics.missed -= 1
            return await self._wait(request, selection, lane)
        return reply

    def _check(self, header: h.PullMessage) -> SubscriptionGroupConfig:
        if not self._config.broker_permission & _READ:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] pulling message is forbidden")
        groups, topics = self._groups, self._topics
        group = groups.groups.get(header.consumer_group) or groups.find(header.consumer_group)
        if not group.consume_enable:
            raise NoPermission(f"subscription group no permission, {header.consumer_group}")
        topic = topics.topics.get(header.topic) or topics.find(header.topic)
        if not topic.perm & _READ:
            raise NoPermission(f"the topic[{header.topic}] pulling message is forbidden")
        if groups.forbidden and not groups.is_readable(header.consumer_group, header.topic):
            raise NoPermission(f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise InvalidParameter(
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{header.consumer_group}]"
            )
        return group

    def _select(self, header: h.PullMessage, group: SubscriptionGroupConfig) -> Selection:
        if header.sys_flag & SUBSCRIPTION_BIT:
            return self._selector.of_request(
                header.consumer_group, header.topic, header.subscription, header.expression_type
            )
        members = self._clients.consumers.get(header.consumer_group)
        if members is None:
            raise SubscriptionNotFound("the consumer's group info not exist")
        if not group.consume_broadcast_enable and members.message_model == BROADCASTING:
            raise NoPermission(f"the consumer group[{header.consumer_group}] can not consume by broadcast way")
        subscription = members.subscriptions.get(header.topic)
        if subscription is None:
            raise SubscriptionNotFound("the consumer's subscription not exist")
        if subscription.sub_version < header.sub_version:
            raise SubscriptionNotLatest("the consumer's subscription not latest")
        return self._selector.of_subscription(header.consumer_group, subscription, header.sub_version)

    async def _bring(
        self,
        header: h.PullMessage,
        selection: Selection,
        queue_offset: int,
        bounds: PullBounds | None,
        missing: NotInMemory,
    ) -> Got:
        """Returns what was not in memory; whoever wants something else does not wait for it."""
        return await self._store.cold.read(
            lambda brought: self._get(header, selection, queue_offset, bounds, brought), missing
        )

    def _get(
        self,
        header: h.PullMessage,
        selection: Selection,
        queue_offset: int,
        bounds: PullBounds | None = None,
        brought: Brought | None = _NOTHING,
    ) -> Got:
        """Returns what is in memory or was brought there; NotInMemory if some of it is not."""
        if self._offsets.resets:
            offset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
            if offset is not None:
                return self._reset(header, offset)
        began = perf_counter()
        got = self._store.reader.get(
            header.topic,
            header.queue_id,
            queue_offset,
            brought=brought,
            count_max=max(header.max_msg_nums, 1),
            bytes_max=PULL_SIZE_MAX if bounds is None or header.max_msg_bytes is None else header.max_msg_bytes,
            bounds=bounds,
            matches=selection.matches,
            wants=selection.wants,
        )
        self._statistics.got(header.topic, header.consumer_group, got.count, got.size, perf_counter() - began)
        if got.count or got.status is GetStatus.OFFSET_OVERFLOW_ONE:
            self._behind.pulled(header.topic, header.consumer_group, header.queue_id, got.last_offset, got.next_offset)
        return got

    def _reset(self, header: h.PullMessage, queue_offset: int) -> Got:
        """Returns what sends a consumer to another offset."""
        reader = self._store.reader
        low, high = (find(header.topic, header.queue_id) for find in (reader.min_offset, reader.max_offset))
        return Got(GetStatus.OFFSET_RESET, queue_offset, low, high)

    async def _wait(self, request: Incoming[Any], selection: Selection, lane: Lane) -> Reply[h.Pulled]:
        """Answers when something comes that the consumer wants, or when it has waited as long as it said."""
        header: h.PullMessage = request.header
        connection = request.connection
        loop = asyncio.get_running_loop()
        if self._config.long_polling_enable:
            seconds = min(max(header.suspend_timeout_millis, 0) / 1000, WAIT_SECONDS_MAX)
        else:
            seconds = self._config.short_polling_time_mills / 1000
        deadline = loop.time() + seconds
        queue_offset = header.queue_offset
        while True:
            if not connection.is_writable:
                # One message may wake all that wait on a connection, and each would get it.
                await turn(lane, connection)
            # Before it waits, in the same turn: something may have come since the request was looked at.
            try:
                got = self._get(header, selection, queue_offset)
            except NotInMemory as missing:
                got = await self._bring(header, selection, queue_offset, None, missing)
            left = deadline - loop.time()
            if left > 0 and got.status is GetStatus.NO_MATCHED_MESSAGE and got.next_offset == got.max_offset:
                # What came is for others; it need not be looked at again.
                queue_offset = got.next_offset
            else:
                reply = self._reply(header, got)
                if reply.code != ResponseCode.PULL_NOT_FOUND or left <= 0:
                    return reply
            try:
                with Parked(lane, connection):
                    await self._store.arrivals.wait(header.topic, header.queue_id, seconds=left)
            except SystemBusy:
                # Too many wait; this one is told that there is nothing now.
                return self._reply(header, got)

    def _reply(self, header: h.PullMessage, got: Got) -> Reply[h.Pulled]:
        code = _CODES.get(got.status)
        if code is None:
            code = ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else ResponseCode.PULL_NOT_FOUND
        pulled = h.Pulled(
            suggest_which_broker_id=MASTER_ID,
            next_begin_offset=got.next_offset,
            min_offset=got.min_offset,
            max_offset=got.max_offset,
        )
        return Reply(pulled, code=code.value, remark=got.status.value, parts=got.runs)


def found_answer(opaque: int, got: Got) -> Answer:
    """Returns in JSON what `_reply` says of a pull that found something."""
    header = _FOUND_HEADER % (MASTER_ID, got.next_offset, got.min_offset, got.max_offset, opaque)
    return answer_in_parts(header, got.runs, got.size)
