"""QUERY_CONSUME_QUEUE: the entries of a consume queue."""

from kerolox.broker.parts import BrokerParts
from kerolox.errors import SystemFailure
from kerolox.remoting.router import Incoming, handles
from kerolox.runtime.cooperative import in_turns
from kerolox.runtime.text import fastjson
from kerolox.store.queue.consume_queue import ConsumeQueue, Entry
from kerolox.store.queue.queue_ext import is_address, valid_tags_code
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.offsets import ConsumeQueueData, QueueEntryData
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

# A limit that RocketMQ does not have.
_ENTRIES_MAX = 10_000
# Entries read without yielding to other tasks.
_ENTRIES_AT_ONCE = 500


class ConsumeQueueProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._clients = parts.clients
        self._filters = parts.filters

    @handles(h.QueryConsumeQueue)
    async def query(self, request: Incoming[h.QueryConsumeQueue]) -> Reply[Empty]:
        header = request.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        if queue is None:
            raise SystemFailure(f"{header.queue_id}@{header.topic} is not exist!")
        low, high = queue.min_offset, queue.max_offset
        if not low <= header.index < high:
            # As in Java: SUCCESS without a body.
            return Reply(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
        subscription, filter_data = self._subscription(header)
        count = min(max(header.count, 0), _ENTRIES_MAX, high - header.index)
        entries = in_turns(queue.entries(header.index, count), count=_ENTRIES_AT_ONCE)
        described = [_describe(queue, entry) async for entry in entries]
        data = ConsumeQueueData(
            filter_data=filter_data,
            max_queue_index=high,
            min_queue_index=low,
            queue_data=described,
            subscription_data=subscription,
        )
        return Reply(None, data.encode())

    def _subscription(self, header: h.QueryConsumeQueue) -> tuple[SubscriptionData | None, str | None]:
        if header.consumer_group is None:
            return None, None
        group = self._clients.consumers.get(header.consumer_group)
        subscription = None if group is None else group.subscriptions.get(header.topic)
        if subscription is None:
            return None, f"{header.consumer_group}@{header.topic} is not online!"
        consumer_filter = self._filters.find(header.topic, header.consumer_group)
        return subscription, "null" if consumer_filter is None else fastjson.encode(consumer_filter.data()).decode()


def _describe(queue: ConsumeQueue, entry: Entry) -> QueueEntryData:
    data = QueueEntryData(physic_offset=entry.physical_offset, physic_size=entry.size, tags_code=entry.tags_code)
    if is_address(entry.tags_code):
        _, unit = valid_tags_code(queue, entry.tags_code)
        if unit is None:
            data.msg = f"Cq extend not exist!addr: {entry.tags_code}"
        else:
            extension = {"msgStoreTime": unit.store_timestamp, "tagsCode": unit.tags_code}
            data.extend_data_json = fastjson.encode(extension).decode()
            data.bit_map = "".join(f"{byte:08b}" for byte in unit.bit_map) or None
    return data
