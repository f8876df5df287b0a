"""The queues that messages of each topic are sent to (TopicPublishInfo)."""

import asyncio
import logging

from kerolox.client.errors import NoRoute
from kerolox.client.producer.queue_selection import TopicQueues
from kerolox.client.session.session import Session
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.errors import KeroloxError, RemotingError, TopicNotFound
from kerolox.wire.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1


class PublishInfo:
    """Derives the queues from the route of the topic or, if it does not exist, from the template (TBW102).

    Topics have their namespace.
    """

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
        """Return the queues of a topic if its route is known and has writable ones."""
        queues = self._queues.get(topic)
        route = self._routes.known(topic)
        if route is not None and (queues is None or queues.route is not route):
            queues = self._set(topic, route, route.write_queues)
        return queues if queues is not None and queues.queues else None

    async def fetch(self, topic: str, deadline: float) -> TopicQueues:
        """Fetch the route of a topic and return its queues.

        Raises TopicNotFound if the topic neither exists nor may be auto-created; NoRoute if until the deadline it has
        no writable queue, or no NameServer responds.
        """
        loop = asyncio.get_running_loop()
        failure: KeroloxError = NoRoute(f"the route of topic {topic!r} was not received in time")
        while loop.time() < deadline:
            try:
                async with asyncio.timeout_at(deadline):
                    queues = await self._fetch(topic)
                if queues.queues:
                    return queues
                failure = NoRoute(f"topic {topic!r} has no writable queue on a broker with a master")
            except RemotingError as error:
                failure = error
            except TimeoutError:
                break
            await asyncio.sleep(min(_PAUSE_SECONDS, max(0.0, deadline - loop.time())))
        raise NoRoute(f"no queue to send to: {failure}") from failure

    async def watch_reply_topic(self, topic: str) -> None:
        """Learn the brokers of a topic, if it exists, so that they get heartbeats and can push replies to us."""
        if topic not in self._watched:
            self._watch(topic)
            await self._refresh(topic)

    def refresh_soon(self, topic: str) -> None:
        """Refresh the route in the background."""
        self._session.run_in_background(self._refresh(topic), f"refresh the route of {topic}")

    async def _refresh(self, topic: str) -> None:
        try:
            await self._routes.refresh(topic)
        except KeroloxError as error:
            log.debug("keeping the known route of topic %s, because it was not refreshed: %s", topic, error)

    async def _fetch(self, topic: str) -> TopicQueues:
        self._watch(topic)
        route = await self._routes.refresh(topic)
        if route is not None:
            return self._set(topic, route, route.write_queues)
        # The broker creates the topic, like the template, when it receives the first message.
        self._watch(self._template)
        template = await self._routes.refresh(self._template)
        if template is None:
            raise TopicNotFound(
                f"topic {topic!r} does not exist and is not auto-created ({self._template} has no route either)"
            )
        data = template.data
        counts = {queue.broker_name: queue.read_queue_nums for queue in data.queue_datas}
        queues = [
            queue
            for queue in template.write_queues
            if queue.queue_id < min(self._template_queue_count, counts[queue.broker_name])
        ]
        return self._set(topic, template, queues)

    def _watch(self, topic: str) -> None:
        if topic not in self._watched:
            self._watched.add(topic)
            self._routes.watch(topic)

    def _set(
        self, topic: str, route: TopicRoute, queues: "tuple[MessageQueue, ...] | list[MessageQueue]"
    ) -> TopicQueues:
        topic_queues = self._queues[topic] = TopicQueues(self._session.options.unwrap(topic), route, queues)
        return topic_queues
