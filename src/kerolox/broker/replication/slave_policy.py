"""The requests that a slave refuses: everything that would store a message (BrokerRole.SLAVE)."""

from collections.abc import Callable
from typing import Any

from kerolox.broker.errors import ServiceNotAvailable, SlaveNotAvailable
from kerolox.codes import RequestCode
from kerolox.errors import AnswerError, SystemFailure
from kerolox.remoting.connection import Connection
from kerolox.remoting.router import Incoming

_STORES_NOTHING = (
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full, "
    "messages are put to the slave, message store has been shut down: brokerRole=SLAVE, send to the master of the group"
)


def _not_available() -> AnswerError:
    return ServiceNotAvailable(_STORES_NOTHING)


def _no_transactions() -> AnswerError:
    return SlaveNotAvailable("brokerRole=SLAVE: only the master of the group ends transactions")


def _no_master() -> AnswerError:
    return SystemFailure("no master available: brokerRole=SLAVE, send the message back to the master of the group")


# Codes as in Java, where each processor decides: EndTransactionProcessor, AbstractSendMessageProcessor, and the store.
REFUSALS: dict[int, Callable[[], AnswerError]] = {
    RequestCode.SEND_MESSAGE: _not_available,
    RequestCode.SEND_MESSAGE_V2: _not_available,
    RequestCode.SEND_BATCH_MESSAGE: _not_available,
    RequestCode.SEND_REPLY_MESSAGE: _not_available,
    RequestCode.SEND_REPLY_MESSAGE_V2: _not_available,
    RequestCode.RECALL_MESSAGE: _not_available,
    RequestCode.CONSUMER_SEND_MSG_BACK: _no_master,
    RequestCode.END_TRANSACTION: _no_transactions,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: _not_available,
    # A pop stores a checkpoint, an acknowledgement or a changed invisible time stores a record.
    RequestCode.POP_MESSAGE: _not_available,
    RequestCode.ACK_MESSAGE: _not_available,
    RequestCode.BATCH_ACK_MESSAGE: _not_available,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _not_available,
}


class SlavePolicy:
    """Refuses requests that would store a message while the broker is a slave, on every way through the router."""

    def __init__(self, is_slave: Callable[[], bool]) -> None:
        self._is_slave = is_slave

    def admit(self, request: Incoming[Any]) -> None:
        refusal = REFUSALS.get(request.code)
        if refusal is not None and self._is_slave():
            raise refusal()

    def admit_equal(self, request: Incoming[Any], connection: Connection, count: int) -> bool:
        return request.code not in REFUSALS or not self._is_slave()
