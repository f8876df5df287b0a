"""Computes the queues of a member at the start, on changes of group or route, and every 20 s (RebalanceImpl)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from typing import Final

from kerolox.client.consumer.group.allocation import AVERAGELY, Strategy
from kerolox.client.resource_names import RETRY_PREFIX
from kerolox.client.session.session import Session
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.runtime.waiting import wait_with_timeout
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 20.0
# The first interval while something is missing: a lock, an offset, or the route of a topic that was just created.
UNBALANCED_SECONDS: Final = 0.5


class MessageModel(Enum):
    """CLUSTERING divides the queues among the members of a group; with BROADCASTING each member reads all queues."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


# Reads exactly these queues of a topic; returns whether all of them can be read now.
Apply = Callable[[str, Collection[MessageQueue]], Awaitable[bool]]


class Rebalancer:
    """Computes the queues of one member, and calls `apply` with them."""

    def __init__(
        self,
        session: Session,
        group: str,
        topics: Callable[[], Collection[str]],
        apply: Apply,
        *,
        model: MessageModel = MessageModel.CLUSTERING,
        strategy: Strategy = AVERAGELY,
    ) -> None:
        self._session = session
        self._group = group
        self._topics = topics
        self._apply = apply
        self._model = model
        self._strategy = strategy
        self._requested = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Schedule a rebalance; calls before it begins share one."""
        self._requested.set()

    def start(self) -> None:
        self._session.routes.add_listener(self._route_changed)
        self._task = asyncio.create_task(self._run(), name=f"rebalance {self._group}")

    async def stop(self) -> None:
        if self._task is not None:
            self._session.routes.remove_listener(self._route_changed)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _route_changed(self, route: TopicRoute) -> None:
        if route.topic in self._topics():
            self.request()

    async def _run(self) -> None:
        seconds = UNBALANCED_SECONDS
        while True:
            self._requested.clear()
            try:
                is_balanced = await self.rebalance()
            except Exception:
                log.exception("rebalancing group %s failed", self._group)
                is_balanced = False
            # Back off exponentially while it is unbalanced.
            seconds = INTERVAL_SECONDS if is_balanced else min(seconds * 2, INTERVAL_SECONDS)
            if await wait_with_timeout(self._requested, seconds, self._session.options.clock) or is_balanced:
                seconds = UNBALANCED_SECONDS / 2

    async def rebalance(self) -> bool:
        """Rebalance now; return False if not all assigned queues can be read yet."""
        is_balanced = True
        for topic in list(self._topics()):
            assigned = await self._allocate(topic)
            if topic not in self._topics():
                continue
            if assigned is None or not await self._apply(topic, assigned):
                is_balanced = False
        return is_balanced

    async def _allocate(self, topic: str) -> Collection[MessageQueue] | None:
        """Return the queues of this member; None if they cannot be computed, and then the assignment stays."""
        session = self._session
        try:
            route = await session.routes.get(topic)
            if self._model is MessageModel.BROADCASTING:
                return route.read_queues
            members = await session.consumer_ids(topic, self._group)
        except TopicNotFound as error:
            if not topic.startswith(RETRY_PREFIX):
                log.warning("group %s subscribes to a topic that does not exist: %s", self._group, error)
            return None
        except KeroloxError as error:
            log.warning("cannot get the members of group %s: %s", self._group, error)
            return None
        if session.client_id not in members:
            log.info("this client is not yet among the %d members of group %s", len(members), self._group)
            session.heartbeat_soon()
            return None
        return self._strategy.allocate(route.read_queues, members, session.client_id)
