"""Which queues are ours: computed at the start, when the group or a route changes, and every 20 s."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from typing import Final

from kerolox.client.consumer.strategies import AVERAGELY, Strategy
from kerolox.client.names import RETRY_PREFIX
from kerolox.client.routes import TopicRoute
from kerolox.client.session import Session
from kerolox.client.waiting import event_or_late
from kerolox.errors import KeroloxError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 20.0
# When something is missing: a lock, an offset, the route of a topic that was just made.
UNBALANCED_SECONDS: Final = 0.5


class MessageModel(Enum):
    """Whether the members of a group share the queues, or each reads all."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


# Makes the queues of a topic, and no others, ours; says whether that is so now.
Apply = Callable[[str, Collection[MessageQueue]], Awaitable[bool]]


class Rebalancer:
    """Computes the share of one member, and has it applied."""

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
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Has it done as soon as the event loop gets to it; several wishes of one moment are one."""
        self._wanted.set()

    def start(self) -> None:
        self._session.routes.on_changed.append(self._route_changed)
        self._task = asyncio.create_task(self._run(), name=f"rebalance {self._group}")

    async def stop(self) -> None:
        if self._task is not None:
            self._session.routes.on_changed.remove(self._route_changed)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _route_changed(self, route: TopicRoute) -> None:
        if route.topic in self._topics():
            self.soon()

    async def _run(self) -> None:
        seconds = UNBALANCED_SECONDS
        while True:
            self._wanted.clear()
            try:
                is_balanced = await self.rebalance()
            except Exception:
                log.exception("group %s could not be rebalanced", self._group)
                is_balanced = False
            # What stays wrong is looked at ever more rarely.
            seconds = INTERVAL_SECONDS if is_balanced else min(seconds * 2, INTERVAL_SECONDS)
            if await event_or_late(self._wanted, seconds, self._session.options.clock) or is_balanced:
                seconds = UNBALANCED_SECONDS / 2

    async def rebalance(self) -> bool:
        """Does it now; False if not all that is ours could be had."""
        is_balanced = True
        for topic in list(self._topics()):
            share = await self._share(topic)
            if topic not in self._topics():
                continue
            if share is None or not await self._apply(topic, share):
                is_balanced = False
        return is_balanced

    async def _share(self, topic: str) -> Collection[MessageQueue] | None:
        """Returns our queues of a topic; None if that is not known, and then all stays as it is."""
        session = self._session
        try:
            route = await session.routes.get(topic)
            if self._model is MessageModel.BROADCASTING:
                return route.read_queues
            members = await session.consumer_ids(topic, self._group)
        except TopicNotFound as error:
            if not topic.startswith(RETRY_PREFIX):
                log.warning("group %s wants a topic that is not there: %s", self._group, error)
            return None
        except KeroloxError as error:
            log.warning("who else is in group %s nobody says: %s", self._group, error)
            return None
        if session.client_id not in members:
            log.info("group %s does not count us among its %d members yet", self._group, len(members))
            session.heartbeat_soon()
            return None
        return self._strategy.allocate(route.read_queues, members, session.client_id)
