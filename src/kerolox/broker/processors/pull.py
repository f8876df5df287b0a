"""PULL requests, with long polling (PullMessageProcessor, PullRequestHoldService)."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any

from kerolox.broker.errors import (
    InvalidParameter,
    SubscriptionNotFound,
    SubscriptionNotLatest,
)
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pull.message_filter import MessageFilter, Selector
from kerolox.broker.pull.suggested_broker import SuggestedBroker
from kerolox.broker.tables.client_registry import BROADCASTING
from kerolox.codes import ResponseCode
from kerolox.errors import NoPermission, SystemBusy
from kerolox.remoting.connection import Connection
from kerolox.remoting.long_polling import WAIT_SECONDS_MAX, LongPolls, turn
from kerolox.remoting.router import EncodedResponse, Incoming, handles
from kerolox.runtime.request_queue import RequestQueue
from kerolox.store.config import StoreConfig
from kerolox.store.log.segments import NotInMemory
from kerolox.store.queue.lookup import PULL_SIZE_MAX, GetResult, GetStatus, PullBounds
from kerolox.wire.bodies.groups import SubscriptionGroupConfig
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.command import Answer, answer_in_parts, answer_template
from kerolox.wire.headers import messages as h
from kerolox.wire.reply import Reply

COMMIT_OFFSET_BIT, SUSPEND_BIT, SUBSCRIPTION_BIT, CLASS_FILTER_BIT = 0x1, 0x2, 0x4, 0x8

# A plain int: comparing an enum member would cost time in every pull.
_READ = Perm.READ.value

# Connections that may have bulk responses at the same time; far fewer keep a disk busy.
BULK_READERS_MAX = 1024

# The response header of a pull that found messages, encoded once.
_FOUND = GetStatus.FOUND
_FOUND_HEADER = answer_template(h.PULLED_FIELDS, b"FOUND")

PullResponse = Reply[h.Pulled] | EncodedResponse[h.Pulled] | Awaitable[Reply[h.Pulled]]

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


class PullMessageProcessor:
    def __init__(self, parts: BrokerParts, selector: Selector, suggested_broker: SuggestedBroker) -> None:
        self._config = parts.config
        self._suggested_broker = suggested_broker
        self._store_config = parts.settings.store
        self._store = parts.store
        self._in_memory = parts.store.cold_reads.in_memory
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._selector = selector
        self._statistics = parts.statistics
        self._slow_consumers = parts.slow_consumers
        self._request_queue, self._lite_request_queue = parts.request_queues["pull"], parts.request_queues["litePull"]
        self._bulk = BulkPulls(parts.store.config)

    @handles(h.PullMessage, request_queue="pull")
    def pull(self, request: Incoming[h.PullMessage]) -> PullResponse:
        return self._pull(request, self._request_queue)

    @handles(h.LitePullMessage, request_queue="litePull")
    def lite_pull(self, request: Incoming[h.LitePullMessage]) -> PullResponse:
        if not self._config.lite_pull_message_enable:
            raise NoPermission(f"the broker[{self._config.broker_ip1}] for lite pull consumer is forbidden")
        return self._pull(request, self._lite_request_queue)

    def _pull(self, request: Incoming[Any], request_queue: RequestQueue) -> PullResponse:
        header: h.PullMessage = request.header
        group = self._check(header)
        message_filter = self._message_filter(header, group)
        if header.sys_flag & COMMIT_OFFSET_BIT and not self._store_config.is_slave:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        bounds = None
        if header.max_msg_bytes is not None and self._bulk.admits(request.connection, header.max_msg_bytes):
            bounds = self._store.reader.bulk_bounds
        get = partial(self._get, header, message_filter, header.queue_offset, bounds)
        try:
            got = self._in_memory(get)
        except NotInMemory as missing:
            return self._pull_from_disk(request, get, missing, message_filter, request_queue)
        if got.status is _FOUND and request.is_plain:
            broker_id = self._suggested_broker.of(header.consumer_group, is_behind=got.suggests_slave)
            return EncodedResponse(encode_found(request.opaque, got, broker_id))
        reply = self._reply(header, got)
        if reply.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_BIT:
            # `_wait` reads again and counts the miss there.
            self._statistics.missed -= 1
            return self._wait(request, message_filter, request_queue)
        return reply

    async def _pull_from_disk(
        self,
        request: Incoming[Any],
        get: Callable[[], GetResult],
        missing: NotInMemory,
        message_filter: MessageFilter,
        request_queue: RequestQueue,
    ) -> Reply[h.Pulled]:
        header: h.PullMessage = request.header
        if not request.connection.is_writable:
            await turn(request_queue, request.connection)
        reply = self._reply(header, await self._store.cold_reads.read(get, missing))
        if reply.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_BIT:
            self._statistics.missed -= 1
            return await self._wait(request, message_filter, request_queue)
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

    def _message_filter(self, header: h.PullMessage, group: SubscriptionGroupConfig) -> MessageFilter:
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

    def _get(
        self,
        header: h.PullMessage,
        message_filter: MessageFilter,
        queue_offset: int,
        bounds: PullBounds | None = None,
    ) -> GetResult:
        if self._offsets.resets:
            offset = self._offsets.take_reset(header.consumer_group, header.topic, header.queue_id)
            if offset is not None:
                return self._reset(header, offset)
        began = perf_counter()
        got = self._store.reader.get(
            header.topic,
            header.queue_id,
            queue_offset,
            count_max=max(header.max_msg_nums, 1),
            bytes_max=PULL_SIZE_MAX if bounds is None or header.max_msg_bytes is None else header.max_msg_bytes,
            bounds=bounds,
            matches=message_filter.matches,
            wants=message_filter.wants,
        )
        self._statistics.got(header.topic, header.consumer_group, got.count, got.size, perf_counter() - began)
        if got.count or got.status is GetStatus.OFFSET_OVERFLOW_ONE:
            self._slow_consumers.pulled(
                header.topic, header.consumer_group, header.queue_id, got.last_offset, got.next_offset
            )
        return got

    def _reset(self, header: h.PullMessage, queue_offset: int) -> GetResult:
        """Return the result that redirects a consumer to a reset offset."""
        reader = self._store.reader
        low, high = (find(header.topic, header.queue_id) for find in (reader.min_offset, reader.max_offset))
        return GetResult(GetStatus.OFFSET_RESET, queue_offset, low, high)

    async def _wait(
        self, request: Incoming[Any], message_filter: MessageFilter, request_queue: RequestQueue
    ) -> Reply[h.Pulled]:
        """Long polling: respond when a matching message arrives, or when the suspend timeout has passed."""
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
                # One message may wake many pulls of a connection; responses must not pile up unread.
                await turn(request_queue, connection)
            # Read again: a message may have arrived since the last read. Nothing suspends after it, before the wait.
            got = await self._store.cold_reads.read(partial(self._get, header, message_filter, queue_offset))
            left = deadline - loop.time()
            if left > 0 and got.status is GetStatus.NO_MATCHED_MESSAGE and got.next_offset == got.max_offset:
                # The new messages do not match; continue behind them.
                queue_offset = got.next_offset
            else:
                reply = self._reply(header, got)
                if reply.code != ResponseCode.PULL_NOT_FOUND or left <= 0:
                    return reply
            try:
                with LongPolls(request_queue, connection):
                    await self._store.message_waiters.wait(header.topic, header.queue_id, seconds=left)
            except SystemBusy:
                # Too many requests wait: respond that nothing was found.
                return self._reply(header, got)

    def _reply(self, header: h.PullMessage, got: GetResult) -> Reply[h.Pulled]:
        code = _CODES.get(got.status)
        if code is None:
            code = ResponseCode.PULL_OFFSET_MOVED if header.queue_offset else ResponseCode.PULL_NOT_FOUND
        if code is ResponseCode.PULL_NOT_FOUND and self._suggested_broker.returns_to_master():
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
        pulled = h.Pulled(
            suggest_which_broker_id=self._suggested_broker.of(header.consumer_group, is_behind=got.suggests_slave),
            next_begin_offset=got.next_offset,
            min_offset=got.min_offset,
            max_offset=got.max_offset,
        )
        return Reply(pulled, code=code.value, remark=got.status.value, parts=got.runs)


class BulkPulls:
    """Admits bulk pulls: responses larger than those of ordinary pulls, limited by the memory of unsent responses."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        # Connections that pull in bulk and have not received their responses completely.
        self._readers: set[Connection] = set()

    def admits(self, connection: Connection, bytes_asked: int) -> bool:
        """Whether a pull gets a bulk response: it asks for one, and unsent responses leave enough memory."""
        if bytes_asked <= self._config.max_transfer_bytes_on_message_in_memory:
            return False
        sizes = {reader: reader.unsent_size for reader in self._readers if not reader.is_closed}
        self._readers = {reader for reader, size in sizes.items() if size}
        if len(self._readers) >= BULK_READERS_MAX:
            return False
        if sum(sizes.values()) + self._config.bulk_pull_bytes_max > self._config.bulk_pull_bytes_pending_max:
            return False
        self._readers.add(connection)
        return True


def encode_found(opaque: int, got: GetResult, broker_id: int) -> Answer:
    """Encode in JSON the response that `_reply` would return for a pull that found messages."""
    header = _FOUND_HEADER % (broker_id, got.next_offset, got.min_offset, got.max_offset, opaque)
    return answer_in_parts(header, got.runs, got.size)
