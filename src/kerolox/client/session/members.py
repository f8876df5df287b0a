"""The interfaces through which a session uses its producers and consumers (MQProducerInner, MQConsumerInner)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from kerolox.client.messages import Received
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue


class TransactionCheck(msgspec.Struct, frozen=True):
    """A broker's question about the state of a transaction; the decision goes to the broker at `address`."""

    address: str
    record: Record
    tran_state_table_offset: int
    commit_log_offset: int
    message_id: str | None
    transaction_id: str | None


class ProducerMember(Protocol):
    async def check_transaction(self, check: TransactionCheck) -> None: ...


class DirectResult(Body, kw_only=True):
    """The result of CONSUME_MESSAGE_DIRECTLY; `consume_result` is a name of Java's CMResult."""

    auto_commit: bool = True
    consume_result: str
    order: bool = False
    remark: str | None = None
    spent_time_mills: int = 0


class ConsumerMember(Protocol):
    """String properties are the names of Java's enum constants."""

    @property
    def consume_type(self) -> str: ...

    @property
    def message_model(self) -> str: ...

    @property
    def consume_from_where(self) -> str: ...

    @property
    def is_unit(self) -> bool: ...

    def subscriptions(self) -> Sequence[SubscriptionData]:
        """Return the subscriptions for heartbeats, the retry topic included."""

    def rebalance_soon(self) -> None:
        """Schedule a rebalance; must not block."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        """Return the offsets in memory, which may be ahead of the committed ones."""

    def running_info(self, *, has_stacks: bool) -> Body: ...

    async def consume_directly(self, message: Received) -> DirectResult: ...
