"""Queue assignment by the broker, and PULL or POP mode of groups (QueryAssignmentProcessor)."""

import logging

from kerolox.broker.errors import InvalidParameter
from kerolox.broker.parts import BrokerParts
from kerolox.broker.pop.assignment import STRATEGIES, RequestModes, allocate
from kerolox.broker.pop.readable_queues import ReadableQueues
from kerolox.broker.tables.client_registry import BROADCASTING
from kerolox.broker.tables.system_topics import RETRY_PREFIX
from kerolox.errors import NoPermission
from kerolox.remoting.router import Incoming, handles
from kerolox.wire.bodies.body import REQUEST
from kerolox.wire.bodies.clients import Assignment, AssignmentRequest, Assignments, MessageRequestMode
from kerolox.wire.bodies.pop import POP, PULL
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.header import Empty
from kerolox.wire.headers import clients as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)


class AssignmentProcessor:
    def __init__(self, parts: BrokerParts, modes: RequestModes, readable_queues: ReadableQueues) -> None:
        self._config = parts.config
        self._topics = parts.topics
        self._groups = parts.groups
        self._clients = parts.clients
        self._modes = modes
        self._readable_queues = readable_queues

    @handles(h.QueryAssignment, request_queue="loadBalance")
    async def query_assignment(self, request: Incoming[h.QueryAssignment]) -> Reply[Empty]:
        query = AssignmentRequest.decode(request.body, REQUEST)
        mode = self._modes.get(query.topic, query.consumer_group)
        assigned = await self._assigned(query, mode)
        if assigned is None:
            # With an empty response the consumer keeps its queues.
            return Reply(body=Assignments().encode())
        found = [Assignment(message_queue=queue, mode=mode.mode) for queue in assigned]
        return Reply(body=Assignments(found).encode())

    async def _assigned(self, query: AssignmentRequest, mode: MessageRequestMode) -> list[MessageQueue] | None:
        queues = await self._readable_queues.of(query.topic)
        if queues is None or query.message_model == BROADCASTING or not self._config.server_load_balancer_enable:
            return queues
        group = self._clients.consumers.get(query.consumer_group)
        strategy = STRATEGIES.get(query.strategy_name or "")
        if group is None or strategy is None:
            log.warning(
                "no queues of %s are assigned to group %s: %s",
                query.topic,
                query.consumer_group,
                "the group has no members" if group is None else f"unknown strategy {query.strategy_name!r}",
            )
            return None
        return allocate(strategy, queues, group.client_ids, query.client_id, mode)

    @handles(h.SetMessageRequestMode, request_queue="loadBalance")
    async def set_mode(self, request: Incoming[h.SetMessageRequestMode]) -> Reply[Empty]:
        mode = MessageRequestMode.decode(request.body, REQUEST)
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
