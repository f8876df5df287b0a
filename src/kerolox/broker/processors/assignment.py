"""Which queues a consumer gets from the broker, and whether it pulls or pops."""

import logging

from kerolox.broker.clients import BROADCASTING, Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.errors import InvalidParameter
from kerolox.broker.groups import GroupTable
from kerolox.broker.pop.assignment import STRATEGIES, RequestModes, allocate
from kerolox.broker.pop.routes import ReadableQueues
from kerolox.broker.system_topics import RETRY_PREFIX
from kerolox.broker.topics import TopicTable
from kerolox.errors import NoPermission
from kerolox.remoting.routes import Incoming, handles
from kerolox.wire.bodies.clients import Assignment, AssignmentRequest, Assignments, MessageRequestMode
from kerolox.wire.bodies.pop import POP, PULL
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class AssignmentProcessor:
    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        modes: RequestModes,
        queues: ReadableQueues,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._modes = modes
        self._queues = queues

    @handles(h.QueryAssignment, lane="loadBalance")
    async def query(self, request: Incoming[h.QueryAssignment]) -> Reply[Empty]:
        asked = AssignmentRequest.decode(request.body)
        mode = self._modes.get(asked.topic, asked.consumer_group)
        assigned = await self._assigned(asked, mode)
        if assigned is None:
            # The consumer keeps what it has.
            return Reply(body=Assignments().encode())
        found = [Assignment(message_queue=queue, mode=mode.mode) for queue in assigned]
        return Reply(body=Assignments(found).encode())

    async def _assigned(self, asked: AssignmentRequest, mode: MessageRequestMode) -> list[MessageQueue] | None:
        queues = await self._queues.of(asked.topic)
        if queues is None or asked.message_model == BROADCASTING or not self._config.server_load_balancer_enable:
            return queues
        group = self._clients.consumers.get(asked.consumer_group)
        strategy = STRATEGIES.get(asked.strategy_name or "")
        if group is None or strategy is None:
            log.warning(
                "no queues of %s for group %s: %s",
                asked.topic,
                asked.consumer_group,
                "nobody is in it" if group is None else f"no strategy {asked.strategy_name!r}",
            )
            return None
        return allocate(strategy, queues, group.client_ids, asked.client_id, mode)

    @handles(h.SetMessageRequestMode, lane="loadBalance")
    async def set_mode(self, request: Incoming[h.SetMessageRequestMode]) -> Reply[Empty]:
        mode = MessageRequestMode.decode(request.body)
        if mode.topic.startswith(RETRY_PREFIX):
            raise NoPermission("retry topic is not allowed to set mode")
        if mode.mode not in (PULL, POP):
            raise InvalidParameter(f"mode {mode.mode[:100]!r} is neither {PULL} nor {POP}")
        self._topics.find(mode.topic)
        self._groups.find(mode.consumer_group)
        self._modes.set(mode)
        await self._modes.file.save()
        return Reply()

    @handles(h.GetAllMessageRequestMode)
    def all_modes(self, request: Incoming[h.GetAllMessageRequestMode]) -> Reply[Empty]:
        return Reply(body=self._modes.serialized().encode())
