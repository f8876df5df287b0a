"""Asks one of a group's producers what has become of a transaction."""

import logging
from itertools import count, islice

from msgspec.structs import replace

from kerolox.broker.clients import Clients
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.storing import Storing
from kerolox.broker.transactions import half as halves
from kerolox.message.ids import offset_id
from kerolox.message.message import Message
from kerolox.message.record import encode
from kerolox.wire.headers.messages import CheckTransactionState

log = logging.getLogger(__name__)

# So many producers are tried before the message has to wait for the next round.
_ATTEMPTS = 3


class Asking:
    """Takes the producers of a group in turn. They answer with END_TRANSACTION, to where they were asked from."""

    def __init__(self, config: BrokerConfig, storing: Storing, clients: Clients) -> None:
        self._config = config
        self._storing = storing
        self._clients = clients
        self._turns = count()

    def ask(self, half: Message) -> bool:
        """Asks about a half message; False if no producer of its group is there to listen."""
        group = halves.producer_group(half)
        members = self._clients.producers.get(group)
        if members:
            request, body = self._question(half)
            first, size = next(self._turns), len(members)
            for attempt in range(min(_ATTEMPTS, size)):
                connection = next(islice(members, (first + attempt) % size, None))
                if connection.tell(request, body):
                    return True
        log.info("no producer of group %s can be asked about the half message at %d", group, half.queue_offset)
        return False

    def _question(self, half: Message) -> tuple[CheckTransactionState, bytes]:
        key = halves.unique_key(half).decode("utf-8", "replace") or None
        request = CheckTransactionState(
            # The original says the topic that it waits in.
            topic=half.topic,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_id(half.store_host, half.physical_offset),
            broker_name=self._config.broker_name,
        )
        topic, queue_id = halves.target(half)
        real = replace(half, topic=topic, queue_id=queue_id)
        return request, bytes(encode(real, body_size_max=max(len(half.body), 1)))
