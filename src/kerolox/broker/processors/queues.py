"""What lies in a consume queue, entry by entry."""

from kerolox.broker.clients import Clients
from kerolox.broker.filter_data import ConsumerFilters
from kerolox.errors import SystemFailure
from kerolox.remoting.routes import Incoming, handles
from kerolox.runtime import fastjson
from kerolox.runtime.turns import in_turns
from kerolox.store.queue.consume_queue import ConsumeQueue, Entry
from kerolox.store.queue.queue_ext import is_address, valid_tags_code
from kerolox.store.store import Store
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.offsets import ConsumeQueueData, QueueEntryData
from kerolox.wire.header import Empty
from kerolox.wire.headers import broker as h
from kerolox.wire.reply import Reply

# A bound the original does not have.
_ENTRIES_MAX = 10_000
_ENTRIES_AT_ONCE = 500


class QueueProcessor:
    def __init__(self, store: Store, clients: Clients, filters: ConsumerFilters) -> None:
        self._store = store
        self._clients = clients
        self._filters = filters

    @handles(h.QueryConsumeQueue)
    async def query(self, request: Incoming[h.QueryConsumeQueue]) -> Reply[Empty]:
        header = request.header
        queue = self._store.queues.get(header.topic, header.queue_id)
        if queue is None:
            raise SystemFailure(f"{header.queue_id}@{header.topic} is not exist!")
        low, high = queue.min_offset, queue.max_offset
        if not low <= header.index < high:
            # Java says so with SUCCESS, and without a body.
            return Reply(remark=f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!")
        subscription, filter_data = self._subscription(header)
        count = min(max(header.count, 0), _ENTRIES_MAX, high - header.index)
        entries = in_turns(queue.entries(header.index, count), count=_ENTRIES_AT_ONCE)
        found = [_described(queue, entry) async for entry in entries]
        data = ConsumeQueueData(
            filter_data=filter_data,
            max_queue_index=high,
            min_queue_index=low,
            queue_data=found,
            subscription_data=subscription,
        )
        return Reply(None, data.encode())

    def _subscription(self, header: h.QueryConsumeQueue) -> tuple[SubscriptionData | None, str | None]:
        if header.consumer_group is None:
            return None, None
        group = self._clients.consumers.get(header.consumer_group)
        found = None if group is None else group.subscriptions.get(header.topic)
        if found is None:
            return None, f"{header.consumer_group}@{header.topic} is not online!"
        known = self._filters.find(header.topic, header.consumer_group)
        return found, "null" if known is None else fastjson.encode(known.data()).decode()


def _described(queue: ConsumeQueue, entry: Entry) -> QueueEntryData:
    data = QueueEntryData(physic_offset=entry.physical_offset, physic_size=entry.size, tags_code=entry.tags_code)
    if is_address(entry.tags_code):
        _, unit = valid_tags_code(queue, entry.tags_code)
        if unit is None:
            data.msg = f"Cq extend not exist!addr: {entry.tags_code}"
        else:
            known = {"msgStoreTime": unit.store_timestamp, "tagsCode": unit.tags_code}
            data.extend_data_json = fastjson.encode(known).decode()
            data.bit_map = "".join(f"{byte:08b}" for byte in unit.bit_map) or None
    return data
