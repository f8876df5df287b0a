"""Offsets of queues and of consumer groups (ConsumerManageProcessor)."""

from kerolox.broker.errors import GroupNotFound, InvalidParameter
from kerolox.broker.parts import BrokerParts
from kerolox.errors import QueryNotFound, TopicNotFound
from kerolox.remoting.router import Incoming, handles
from kerolox.store.reader import Boundary
from kerolox.wire.header import Empty
from kerolox.wire.headers import offsets as h
from kerolox.wire.reply import Reply


class ConsumerOffsetProcessor:
    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._offsets = parts.offsets

    @handles(h.GetMaxOffset)
    def max_offset(self, request: Incoming[h.GetMaxOffset]) -> Reply[h.OffsetFound]:
        header = request.header
        if header.committed is False:
            # Includes messages that are appended but not dispatched yet.
            return Reply(h.OffsetFound(offset=self._store.append_offset(header.topic, header.queue_id)))
        return Reply(h.OffsetFound(offset=self._store.reader.max_offset(header.topic, header.queue_id)))

    @handles(h.GetMinOffset)
    def min_offset(self, request: Incoming[h.GetMinOffset]) -> Reply[h.OffsetFound]:
        return Reply(h.OffsetFound(offset=max(0, self._store.reader.min_offset(*_queue(request.header)))))

    @handles(h.SearchOffset)
    def search_offset(self, request: Incoming[h.SearchOffset]) -> Reply[h.OffsetFound]:
        """Respond as RocketMQ 5.x does also to 4.x clients; they too mean the first message at or after the time."""
        header = request.header
        is_upper = (header.boundary_type or "").upper() == Boundary.UPPER.value
        boundary = Boundary.UPPER if is_upper else Boundary.LOWER
        offset = self._store.reader.offset_at(header.topic, header.queue_id, header.timestamp, boundary)
        return Reply(h.OffsetFound(offset=offset))

    @handles(h.GetEarliestMsgStoretime)
    def earliest_time(self, request: Incoming[h.GetEarliestMsgStoretime]) -> Reply[h.EarliestFound]:
        return Reply(h.EarliestFound(timestamp=self._store.reader.earliest_time(*_queue(request.header))))

    @handles(h.QueryConsumerOffset, request_queue="consumerManager")
    def consumer_offset(self, request: Incoming[h.QueryConsumerOffset]) -> Reply[h.OffsetFound]:
        header = request.header
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is not None and offset >= 0:
            return Reply(h.OffsetFound(offset=offset))
        reader = self._store.reader
        # A new group starts at the first message of a queue if that message still exists and is in memory. Otherwise
        # the consumer decides where to start (consumeFromWhere).
        is_young = reader.min_offset(*_queue(header)) <= 0 and not reader.is_on_disk(*_queue(header), 0)
        if header.set_zero_if_not_found is False or not is_young:
            raise QueryNotFound("Not found, maybe this group consumer boot first")
        return Reply(h.OffsetFound(offset=0))

    @handles(h.UpdateConsumerOffset, request_queue="consumerManager")
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
        # The topic may have had more queues before.
        if not is_queue and self._store.queues.get(header.topic, header.queue_id) is None:
            raise InvalidParameter(f"queueId {header.queue_id} is illegal, topic {header.topic} has {queues} queues")
        if header.commit_offset is None:
            raise InvalidParameter(f"Offset is null, topic is {header.topic}")
        if not self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset):
            return Reply(remark="Offset has been previously reset")
        return Reply()


def _queue(header: h.GetMinOffset | h.GetEarliestMsgStoretime | h.QueryConsumerOffset) -> tuple[str, int]:
    return header.topic, header.queue_id
