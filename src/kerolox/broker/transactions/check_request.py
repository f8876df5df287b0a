"""CHECK_TRANSACTION_STATE requests to producers (AbstractTransactionalMessageCheckListener)."""

import logging
from itertools import count, islice

from msgspec.structs import replace

from kerolox.broker.config import BrokerConfig
from kerolox.broker.tables.client_registry import ClientRegistry
from kerolox.broker.transactions import half_queue
from kerolox.message.ids import offset_id
from kerolox.message.message import Message
from kerolox.message.records.record import encode
from kerolox.wire.headers.messages import CheckTransactionState

log = logging.getLogger(__name__)

# Producers that are tried before the message waits for the next round.
_ATTEMPTS = 3


class CheckRequests:
    """Asks the producers of a group round robin. They answer with END_TRANSACTION on the same connection."""

    def __init__(self, config: BrokerConfig, clients: ClientRegistry) -> None:
        self._config = config
        self._clients = clients
        self._turns = count()

    def send(self, half: Message) -> bool:
        """Ask a producer about a half message; False if no producer of its group is connected."""
        group = half_queue.producer_group(half)
        members = self._clients.producers.get(group)
        if members:
            request, body = self._request(half)
            first, size = next(self._turns), len(members)
            for attempt in range(min(_ATTEMPTS, size)):
                connection = next(islice(members, (first + attempt) % size, None))
                if connection.send_oneway(request, body):
                    return True
        log.info("no producer of group %s is connected to check the half message at %d", group, half.queue_offset)
        return False

    def _request(self, half: Message) -> tuple[CheckTransactionState, bytes]:
        key = half_queue.unique_key(half).decode("utf-8", "replace") or None
        request = CheckTransactionState(
            # As in Java, the half topic.
            topic=half.topic,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_id(half.store_host, half.physical_offset),
            broker_name=self._config.broker_name,
        )
        topic, queue_id = half_queue.target(half)
        real = replace(half, topic=topic, queue_id=queue_id)
        return request, bytes(encode(real, body_size_max=max(len(half.body), 1)))
