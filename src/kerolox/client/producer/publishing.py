"""The queues that topics are sent to: by the topic's own route, or as a broker would make it."""

import asyncio
import logging

from kerolox.client.errors import NoRoute
from kerolox.client.producer.queue_choice import TopicQueues
from kerolox.client.routes import TopicRoute
from kerolox.client.session import Session
from kerolox.errors import KeroloxError, RemotingError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1


class Publishing:
    """Topics are those of brokers, with their namespace."""

    def __init__(self, session: Session, template: str, template_queue_count: int) -> None:
        self._session = session
        self._routes = session.routes
        self._template = template
        self._template_queue_count = template_queue_count
        self._queues: dict[str, TopicQueues] = {}
        self._watched: set[str] = set()

    def close(self) -> None:
        for topic in self._watched:
            self._routes.unwatch(topic)
        self._watched.clear()

    def known(self, topic: str) -> TopicQueues | None:
        """Returns the queues of a topic if its route is known, and names some that can be written."""
        queues = self._queues.get(topic)
        route = self._routes.known(topic)
        if route is not None and (queues is None or queues.route is not route):
            queues = self._keep(topic, route, route.write_queues)
        return queues if queues is not None and queues.queues else None

    async def find(self, topic: str, deadline: float) -> TopicQueues:
        """Returns the queues of a topic, asking for its route; TopicNotFound if it has none and none may be made.

        NoRoute if none can be written, or no NameServer answers, until the deadline.
        """
        loop = asyncio.get_running_loop()
        failure: KeroloxError = NoRoute(f"the route of topic {topic!r} did not come in time")
        while loop.time() < deadline:
            try:
                async with asyncio.timeout_at(deadline):
                    queues = await self._ask(topic)
                if queues.queues:
                    return queues
                failure = NoRoute(f"topic {topic!r} has no queue that can be written, or no broker of it a master")
            except RemotingError as error:
                failure = error
            except TimeoutError:
                break
            await asyncio.sleep(min(_PAUSE_SECONDS, max(0.0, deadline - loop.time())))
        raise NoRoute(f"nowhere to send to: {failure}") from failure

    async def follow(self, topic: str) -> None:
        """Has the brokers of a topic known, if it exists, for what they send to us rather than we to them."""
        if topic not in self._watched:
            self._watch(topic)
            await self._refresh(topic)

    def refresh_soon(self, topic: str) -> None:
        """Has the route looked up anew, in the background."""
        self._session.run(self._refresh(topic), f"refresh the route of {topic}")

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except KeroloxError as error:
            log.debug("the route of topic %s stays as it was: %s", topic, error)

    async def _ask(self, topic: str) -> TopicQueues:
        self._watch(topic)
        route = await self._routes.refresh(topic)
        if route is not None:
            return self._keep(topic, route, route.write_queues)
        # The broker makes the topic when its first message comes.
        self._watch(self._template)
        template = await self._routes.refresh(self._template)
        if template is None:
            raise TopicNotFound(
                f"topic {topic!r} does not exist, and brokers make none ({self._template} has no route either)"
            )
        data = template.data
        counts = {queue.broker_name: queue.read_queue_nums for queue in data.queue_datas}
        queues = [
            queue
            for queue in template.write_queues
            if queue.queue_id < min(self._template_queue_count, counts[queue.broker_name])
        ]
        return self._keep(topic, template, queues)

    def _watch(self, topic: str) -> None:
        if topic not in self._watched:
            self._watched.add(topic)
            self._routes.watch(topic)

    def _keep(
        self, topic: str, route: TopicRoute, queues: "tuple[MessageQueue, ...] | list[MessageQueue]"
    ) -> TopicQueues:
        made = self._queues[topic] = TopicQueues(self._session.options.unwrap(topic), route, queues)
        return made
