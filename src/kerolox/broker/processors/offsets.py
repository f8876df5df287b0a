"""Where queues begin and end, and how far groups have come in them."""

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.groups import GroupTable
from kerolox.broker.offsets import ConsumerOffsets
from kerolox.broker.topics import TopicTable
from kerolox.errors import QueryNotFound, TopicNotFound
from kerolox.remoting.routes import Incoming, handles
from kerolox.store.reader import Boundary
from kerolox.store.store import Store
from kerolox.wire.header import Empty
from kerolox.wire.headers import offsets as h
from kerolox.wire.reply import Reply


class OffsetProcessor:
    def __init__(self, store: Store, topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    @handles(h.GetMaxOffset)
    def max_offset(self, request: Incoming[h.GetMaxOffset]) -> Reply[h.OffsetFound]:
        header = request.header
        if header.committed is False:
            # Also what readers may not see yet.
            return Reply(h.OffsetFound(offset=self._store.append_offset(header.topic, header.queue_id)))
        return Reply(h.OffsetFound(offset=self._store.reader.max_offset(header.topic, header.queue_id)))

    @handles(h.GetMinOffset)
    def min_offset(self, request: Incoming[h.GetMinOffset]) -> Reply[h.OffsetFound]:
        return Reply(h.OffsetFound(offset=max(0, self._store.reader.min_offset(*_queue(request.header)))))

    @handles(h.SearchOffset)
    def search_offset(self, request: Incoming[h.SearchOffset]) -> Reply[h.OffsetFound]:
        """Answers everybody as 5.x does; clients of 4.x, too, mean the first message from that time on."""
        header = request.header
        is_upper = (header.boundary_type or "").upper() == Boundary.UPPER.value
        boundary = Boundary.UPPER if is_upper else Boundary.LOWER
        offset = self._store.reader.offset_at(header.topic, header.queue_id, header.timestamp, boundary)
        return Reply(h.OffsetFound(offset=offset))

    @handles(h.GetEarliestMsgStoretime)
    def earliest_time(self, request: Incoming[h.GetEarliestMsgStoretime]) -> Reply[h.EarliestFound]:
        return Reply(h.EarliestFound(timestamp=self._store.reader.earliest_time(*_queue(request.header))))

    @handles(h.QueryConsumerOffset, lane="consumerManager")
    def consumer_offset(self, request: Incoming[h.QueryConsumerOffset]) -> Reply[h.OffsetFound]:
        header = request.header
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is not None and offset >= 0:
            return Reply(h.OffsetFound(offset=offset))
        reader = self._store.reader
        # A new group begins with the first message of a queue, if that is still there and so young that it is in
        # memory. For any other its consumer decides.
        is_young = reader.min_offset(*_queue(header)) <= 0 and not reader.is_on_disk(*_queue(header), 0)
        if header.set_zero_if_not_found is False or not is_young:
            raise QueryNotFound("Not found, maybe this group consumer boot first")
        return Reply(h.OffsetFound(offset=0))

    @handles(h.UpdateConsumerOffset, lane="consumerManager")
    def commit(self, request: Incoming[h.UpdateConsumerOffset]) -> Reply[Empty]:
        header = request.header
        if header.consumer_group not in self._groups.groups:
            raise GroupNotFound(f"Group {header.consumer_group} not exist!")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise TopicNotFound(f"Topic {header.topic} not exist!")
        if header.queue_id is None:
            raise InvalidParameter(f"QueueId is null, topic is {header.topic}")
        queues = max(topic.read_queue_nums, topic.write_queue_nums)
        is_queue = 0 <= header.queue_id < queues
        # The topic may have had more once.
        if not is_queue and self._store.queues.get(header.topic, header.queue_id) is None:
            raise InvalidParameter(f"queueId {header.queue_id} is illegal, topic {header.topic} has {queues} queues")
        if header.commit_offset is None:
            raise InvalidParameter(f"Offset is null, topic is {header.topic}")
        if not self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset):
            return Reply(remark="Offset has been previously reset")
        return Reply()


def _queue(header: h.GetMinOffset | h.GetEarliestMsgStoretime | h.QueryConsumerOffset) -> tuple[str, int]:
    return header.topic, header.queue_id
