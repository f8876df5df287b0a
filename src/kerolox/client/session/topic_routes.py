"""The cache of topic routes, refreshed while a topic is watched (MQClientInstance.topicRouteTable)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.bodies.topics import Perm

log = logging.getLogger(__name__)

MASTER_ID = 0


@dataclass(frozen=True)
class TopicRoute:
    """The route of one topic. Queues are in Java's order: by broker, then by number."""

    topic: str
    data: TopicRouteData

    @cached_property
    def brokers(self) -> dict[str, dict[int, str]]:
        """Broker name → broker id → address; the master has id 0."""
        return {broker.broker_name: dict(broker.broker_addrs) for broker in self.data.broker_datas}

    @cached_property
    def write_queues(self) -> tuple[MessageQueue, ...]:
        """The queues to send to: those that are writable, on brokers that have a master."""
        if self.data.order_topic_conf:
            return self._queues(self.data.ordered_queues())
        return self._queues(
            (queue.broker_name, queue.write_queue_nums)
            for queue in sorted(self.data.queue_datas, key=lambda queue: queue.broker_name)
            if queue.perm & Perm.WRITE and MASTER_ID in self.brokers.get(queue.broker_name, {})
        )

    @cached_property
    def read_queues(self) -> tuple[MessageQueue, ...]:
        """The queues to read from; a slave is enough."""
        return self._queues(
            (queue.broker_name, queue.read_queue_nums)
            for queue in sorted(self.data.queue_datas, key=lambda queue: queue.broker_name)
            if queue.perm & Perm.READ
        )

    @property
    def is_ordered(self) -> bool:
        """Whether the list of write queues is fixed (ORDER_TOPIC_CONFIG), even while brokers are down."""
        return bool(self.data.order_topic_conf)

    def _queues(self, counts: Iterator[tuple[str, int]]) -> tuple[MessageQueue, ...]:
        return tuple(
            MessageQueue(broker_name, queue_id, self.topic)
            for broker_name, count in counts
            for queue_id in range(count)
        )


class TopicRoutes:
    """Fetches a route on first use, and refreshes it periodically while the topic is watched.

    `on_brokers_changed` is called when the set of brokers of all known routes has changed.
    """

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[TopicRouteData]],
        *,
        on_brokers_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._fetch = fetch
        self._on_brokers_changed = on_brokers_changed
        self._known: dict[str, TopicRoute] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._watched: Counter[str] = Counter()
        self._addresses: dict[str, dict[int, str]] = {}
        self._listeners: list[Callable[[TopicRoute], None]] = []

    def add_listener(self, listener: Callable[[TopicRoute], None]) -> None:
        """Call `listener` with each new or changed route."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[TopicRoute], None]) -> None:
        self._listeners.remove(listener)

    async def get(self, topic: str) -> TopicRoute:
        """Return the route, fetched if it is not known; raise TopicNotFound if no NameServer has it.

        Raises ProtocolError if the route has more queues than a client can use.
        """
        return self._known.get(topic) or await self._fetch_shared(topic)

    def known(self, topic: str) -> TopicRoute | None:
        return self._known.get(topic)

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Fetch and return the route; None if no NameServer has it, and then a known route stays in use.

        Raises RemotingError if no NameServer responds.
        """
        try:
            return await self._fetch_shared(topic)
        except TopicNotFound:
            return None

    def watch(self, topic: str) -> None:
        """Refresh the route periodically until `unwatch` has been called as often as `watch`."""
        self._watched[topic] += 1

    def unwatch(self, topic: str) -> None:
        self._watched[topic] -= 1
        if self._watched[topic] <= 0:
            del self._watched[topic]
            self._known.pop(topic, None)
            self._update_brokers()

    async def refresh_all(self) -> None:
        """Refresh the watched routes and forget the others; a route that cannot be refreshed stays in use."""
        self._known = {topic: route for topic, route in self._known.items() if topic in self._watched}
        self._update_brokers()
        for topic in list(self._watched):
            try:
                await self.refresh(topic)
            except KeroloxError as error:
                log.warning("keeping the known route of topic %s, because it was not refreshed: %s", topic, error)

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of a broker of a known route."""
        return self._addresses.get(broker_name, {}).get(broker_id)

    def readable_address(self, broker_name: str, broker_id: int = MASTER_ID) -> tuple[int, str] | None:
        """Return id and address of a broker of a group: the wanted one, else the master, else the lowest slave."""
        members = self._addresses.get(broker_name, {})
        for candidate in (broker_id, broker_id + 1, MASTER_ID, *sorted(members)):
            if candidate in members:
                return candidate, members[candidate]
        return None

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """The brokers of all known routes: broker name → broker id → address."""
        return self._addresses

    async def _fetch_shared(self, topic: str) -> TopicRoute:
        """Fetch the route; concurrent callers share one request."""
        fetching = self._fetching.get(topic)
        if fetching is None:
            fetching = asyncio.create_task(self._update(topic), name=f"route of {topic}")
            self._fetching[topic] = fetching
            fetching.add_done_callback(lambda done: self._fetch_done(topic, done))
        # `wait` does not cancel the task when its caller is cancelled: others may wait for it.
        await asyncio.wait([fetching])
        if fetching.cancelled():
            raise TopicNotFound(f"the session was closed before the route of topic {topic!r} was known")
        return fetching.result()

    def _fetch_done(self, topic: str, fetching: asyncio.Task[TopicRoute]) -> None:
        del self._fetching[topic]
        if not fetching.cancelled():
            fetching.exception()  # Mark it as retrieved, in case all callers have been cancelled.

    async def _update(self, topic: str) -> TopicRoute:
        data = await self._fetch(topic)
        data.check(topic)
        data.queue_datas.sort(key=lambda queue: queue.broker_name)
        data.broker_datas.sort(key=lambda broker: broker.broker_name)
        known = self._known.get(topic)
        if known is not None and known.data == data:
            return known
        route = TopicRoute(topic, data)
        # Last, because the latest route tells which brokers of a group are alive (`_update_brokers`).
        self._known.pop(topic, None)
        self._known[topic] = route
        if known is not None:
            log.info("the route of topic %s changed to %s", topic, route.brokers)
        self._update_brokers()
        for listener in self._listeners:
            listener(route)
        return route

    def _update_brokers(self) -> None:
        addresses: dict[str, dict[int, str]] = {}
        for route in self._known.values():
            addresses |= route.brokers
        if addresses != self._addresses:
            self._addresses = addresses
            self._on_brokers_changed()

    async def close(self) -> None:
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        if fetching:
            await asyncio.wait(fetching)
