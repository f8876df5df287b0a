"""What became of a message in the groups that consume its topic, as brokers can tell."""

from dataclasses import dataclass
from enum import Enum

from kerolox.admin.connections import Connections
from kerolox.admin.errors import AdminError
from kerolox.admin.offsets import Offsets
from kerolox.admin.servers import Servers
from kerolox.admin.topics import Topics
from kerolox.client.messages import Received
from kerolox.errors import ConsumerNotOnline, KeroloxError


class TrackType(Enum):
    """What became of a message in a group, under Java's names."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    # The group pulls, and only it knows what it has consumed.
    PULL = "PULL"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Track:
    group: str
    type: TrackType
    # Why it is not known.
    error: KeroloxError | None = None


class Tracks:
    def __init__(self, servers: Servers, topics: Topics, offsets: Offsets, connections: Connections) -> None:
        self._servers = servers
        self._topics = topics
        self._offsets = offsets
        self._connections = connections

    async def of_message(self, message: Received) -> list[Track]:
        """Returns what became of a message in each group that consumes its topic."""
        groups = await self._topics.groups(message.record.topic)
        return await self._servers.gathered(groups, lambda group: self._track(message, group))

    async def _track(self, message: Received, group: str) -> Track:
        try:
            return Track(group, await self._track_type(message, group))
        except ConsumerNotOnline as error:
            return Track(group, TrackType.NOT_ONLINE, error)
        except KeroloxError as error:
            return Track(group, TrackType.UNKNOWN, error)

    async def _track_type(self, message: Received, group: str) -> TrackType:
        consumers = await self._connections.consumers(group)
        if consumers.message_model == "BROADCASTING":
            return TrackType.CONSUME_BROADCASTING
        if consumers.consume_type == "CONSUME_ACTIVELY":
            return TrackType.PULL
        topic = message.record.topic
        progress = (await self._offsets.progress(group, topic)).queues.get(message.queue)
        if progress is None:
            raise AdminError(f"group {group!r} has no offset for {message.queue}")
        if progress.consumer_offset <= message.queue_offset:
            return TrackType.NOT_CONSUME_YET
        subscription = consumers.subscription_table.get(topic)
        tags = set((subscription and subscription.tags_set) or ())
        is_wanted = not tags or "*" in tags or message.tag in tags
        return TrackType.CONSUMED if is_wanted else TrackType.CONSUMED_BUT_FILTERED
