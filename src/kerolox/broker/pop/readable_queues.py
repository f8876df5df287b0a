"""Readable queues of a topic on all brokers, from its route, for queue assignment (TopicRouteInfoManager)."""

import logging
from collections.abc import Callable, Iterable

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.topics import TopicTable
from kerolox.errors import AnswerError, ProtocolError, RemotingError, TopicNotFound
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

log = logging.getLogger(__name__)

# A route is queried again after this time; consumers ask for their assignment every 20 s.
FRESH_SECONDS = 10.0
_TIMEOUT_SECONDS = 3.0
_ROUTES_MAX = 10_000


class ReadableQueues:
    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        client: Client,
        name_servers: Callable[[], Iterable[str]],
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._client = client
        self._name_servers = name_servers
        self._clock = clock
        self._routes: dict[str, tuple[float, list[MessageQueue]]] = {}

    async def of(self, topic: str) -> list[MessageQueue] | None:
        """Return the readable queues on all brokers; None if the topic is unknown or no NameServer has answered yet.

        Without NameServers, the queues of this broker. While no NameServer answers, the last known route.
        """
        name_servers = list(self._name_servers())
        if not name_servers:
            return self._own(topic)
        cached = self._routes.get(topic)
        if cached is not None and self._clock.monotonic() - cached[0] < FRESH_SECONDS:
            return cached[1]
        for address in name_servers:
            try:
                queues = await self._query(address, topic)
            except TopicNotFound:
                self._routes.pop(topic, None)
                return None
            except (RemotingError, AnswerError, ProtocolError) as error:
                log.debug("NameServer %s did not return the route of %s: %s", address, topic, error)
            else:
                self._cache(topic, queues)
                return queues
        return None if cached is None else cached[1]

    async def _query(self, address: str, topic: str) -> list[MessageQueue]:
        reply = await self._client.call(address, GetRouteInfoByTopic(topic=topic), timeout_seconds=_TIMEOUT_SECONDS)
        route = TopicRouteData.decode(reply.body)
        route.check(topic)
        return [
            MessageQueue(data.broker_name, number, topic)
            for data in route.queue_datas
            if data.perm & Perm.READ
            for number in range(data.read_queue_nums)
        ]

    def _own(self, topic: str) -> list[MessageQueue] | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        count = config.read_queue_nums if config.perm & Perm.READ else 0
        return [MessageQueue(self._config.broker_name, number, topic) for number in range(count)]

    def _cache(self, topic: str, queues: list[MessageQueue]) -> None:
        self._routes.pop(topic, None)
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.pop(next(iter(self._routes)))
        self._routes[topic] = self._clock.monotonic(), queues
