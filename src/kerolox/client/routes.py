"""Where topics are: routes, kept as long as somebody uses them."""

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
# A route may name more queues than a client could ever use; beyond this it is not believed.
_QUEUES_MAX = 100_000


@dataclass(frozen=True)
class TopicRoute:
    """The route of one topic. Queues are in Java's order: by broker, then by number."""

    topic: str
    data: TopicRouteData

    @cached_property
    def brokers(self) -> dict[str, dict[int, str]]:
        """By name, the addresses of a broker group by id; the master has id 0."""
        return {broker.broker_name: dict(broker.broker_addrs) for broker in self.data.broker_datas}

    @cached_property
    def write_queues(self) -> tuple[MessageQueue, ...]:
        """Where to send: queues that are writable, of brokers that have a master."""
        if self.data.order_topic_conf:
            return self._listed(self._ordered_counts(self.data.order_topic_conf))
        return self._listed(
            (queue.broker_name, queue.write_queue_nums)
            for queue in sorted(self.data.queue_datas, key=lambda queue: queue.broker_name)
            if queue.perm & Perm.WRITE and MASTER_ID in self.brokers.get(queue.broker_name, {})
        )

    @cached_property
    def read_queues(self) -> tuple[MessageQueue, ...]:
        """Where to read; a slave will do."""
        return self._listed(
            (queue.broker_name, queue.read_queue_nums)
            for queue in sorted(self.data.queue_datas, key=lambda queue: queue.broker_name)
            if queue.perm & Perm.READ
        )

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the topic's queues is fixed, also while brokers are away."""
        return bool(self.data.order_topic_conf)

    def _listed(self, counts: Iterator[tuple[str, int]]) -> tuple[MessageQueue, ...]:
        queues: list[MessageQueue] = []
        for broker_name, count in counts:
            count = min(count, _QUEUES_MAX - len(queues))
            queues += [MessageQueue(broker_name, queue_id, self.topic) for queue_id in range(count)]
        return tuple(queues)

    @staticmethod
    def _ordered_counts(conf: str) -> Iterator[tuple[str, int]]:
        """Yields what `broker-a:4;broker-b:4` says."""
        for part in conf.split(";"):
            broker_name, _, count = part.partition(":")
            if broker_name and count.isdecimal():
                yield broker_name, int(count)


class Routes:
    """A topic's route is asked for once, then kept fresh while it is watched."""

    def __init__(self, fetch: Callable[[str], Awaitable[TopicRouteData]]) -> None:
        self._fetch = fetch
        self._known: dict[str, TopicRoute] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._watched: Counter[str] = Counter()
        self._addresses: dict[str, dict[int, str]] = {}
        # Told whenever brokers have come or gone.
        self.on_brokers: Callable[[], None] = lambda: None
        # Told of each route that is not what it was.
        self.on_changed: list[Callable[[TopicRoute], None]] = []

    async def get(self, topic: str) -> TopicRoute:
        """Returns the route, asking if it is not known yet; TopicNotFound if no NameServer has it."""
        return self._known.get(topic) or await self._ask(topic)

    def known(self, topic: str) -> TopicRoute | None:
        return self._known.get(topic)

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Returns the route as it is now; None if there is none, and then what was known stays in use.

        RemotingError if no NameServer answers.
        """
        try:
            return await self._ask(topic)
        except TopicNotFound:
            return None

    def watch(self, topic: str) -> None:
        """Has the route kept fresh until it is unwatched as often as it was watched."""
        self._watched[topic] += 1

    def unwatch(self, topic: str) -> None:
        self._watched[topic] -= 1
        if self._watched[topic] <= 0:
            del self._watched[topic]
            self._known.pop(topic, None)
            self._count_brokers()

    async def refresh_all(self) -> None:
        """Refreshes what is watched, and forgets what is not; what fails stays as it was."""
        self._known = {topic: route for topic, route in self._known.items() if topic in self._watched}
        self._count_brokers()
        for topic in list(self._watched):
            try:
                await self.refresh(topic)
            except KeroloxError as error:
                log.warning("the route of topic %s stays as it was: %s", topic, error)

    def address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Returns where a broker of a known route is."""
        return self._addresses.get(broker_name, {}).get(broker_id)

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """All brokers of known routes: by name, then id."""
        return self._addresses

    async def _ask(self, topic: str) -> TopicRoute:
        """Those who ask at once share one question."""
        asking = self._fetching.get(topic)
        if asking is None:
            asking = asyncio.create_task(self._update(topic), name=f"route of {topic}")
            self._fetching[topic] = asking
            asking.add_done_callback(lambda done: self._fetched(topic, done))
        await asyncio.wait([asking])
        if asking.cancelled():
            raise TopicNotFound(f"the route of topic {topic!r} is not known: the session was closed meanwhile")
        return asking.result()

    def _fetched(self, topic: str, asking: asyncio.Task[TopicRoute]) -> None:
        del self._fetching[topic]
        if not asking.cancelled():
            asking.exception()  # perhaps nobody waits for it any more

    async def _update(self, topic: str) -> TopicRoute:
        data = await self._fetch(topic)
        data.queue_datas.sort(key=lambda queue: queue.broker_name)
        data.broker_datas.sort(key=lambda broker: broker.broker_name)
        known = self._known.get(topic)
        if known is not None and known.data == data:
            return known
        route = TopicRoute(topic, data)
        self._known[topic] = route
        if known is not None:
            log.info("the route of topic %s has changed: %s", topic, route.brokers)
        self._count_brokers()
        for tell in self.on_changed:
            tell(route)
        return route

    def _count_brokers(self) -> None:
        addresses: dict[str, dict[int, str]] = {}
        for route in self._known.values():
            for name, members in route.brokers.items():
                addresses.setdefault(name, {}).update(members)
        if addresses != self._addresses:
            self._addresses = addresses
            self.on_brokers()

    async def close(self) -> None:
        asking = list(self._fetching.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
