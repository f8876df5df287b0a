"""Where the queues of a topic are, as NameServers tell; for the assignment of queues."""

import logging
from collections.abc import Callable, Iterable

from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.topics import TopicTable
from kerolox.errors import AnswerError, ProtocolError, RemotingError, TopicNotFound
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.bodies.routes import TopicRouteData
from kerolox.wire.bodies.topics import Perm
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic

log = logging.getLogger(__name__)

# Consumers ask every 20 s, and a route that is younger is not asked for again.
FRESH_SECONDS = 10.0
_TIMEOUT_SECONDS = 3.0
_ROUTES_MAX = 10_000
# What a NameServer says is not trusted to be small.
_QUEUES_MAX = 100_000


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
        self._known: dict[str, tuple[float, list[MessageQueue]]] = {}

    async def of(self, topic: str) -> list[MessageQueue] | None:
        """Returns the queues that can be read, on all brokers; None if nobody knows the topic, or nobody can be asked.

        A broker without NameServers knows its own queues. What was known is kept while no NameServer answers.
        """
        name_servers = list(self._name_servers())
        if not name_servers:
            return self._own(topic)
        known = self._known.get(topic)
        if known is not None and self._clock.monotonic() - known[0] < FRESH_SECONDS:
            return known[1]
        for address in name_servers:
            try:
                queues = await self._ask(address, topic)
            except TopicNotFound:
                self._known.pop(topic, None)
                return None
            except (RemotingError, AnswerError, ProtocolError) as error:
                log.debug("%s does not tell the route of %s: %s", address, topic, error)
            else:
                self._keep(topic, queues)
                return queues
        return None if known is None else known[1]

    async def _ask(self, address: str, topic: str) -> list[MessageQueue]:
        reply = await self._client.call(address, GetRouteInfoByTopic(topic=topic), timeout_seconds=_TIMEOUT_SECONDS)
        queues: list[MessageQueue] = []
        for data in TopicRouteData.decode(reply.body).queue_datas:
            if data.perm & Perm.READ:
                count = min(data.read_queue_nums, _QUEUES_MAX - len(queues))
                queues += [MessageQueue(data.broker_name, number, topic) for number in range(count)]
        return queues

    def _own(self, topic: str) -> list[MessageQueue] | None:
        config = self._topics.get(topic)
        if config is None:
            return None
        count = config.read_queue_nums if config.perm & Perm.READ else 0
        return [MessageQueue(self._config.broker_name, number, topic) for number in range(count)]

    def _keep(self, topic: str, queues: list[MessageQueue]) -> None:
        self._known.pop(topic, None)
        if len(self._known) >= _ROUTES_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[topic] = self._clock.monotonic(), queues
