"""Who takes part in a session: what it needs to know of producers and consumers to speak for them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from kerolox.client.messages import Received
from kerolox.message.message import Message as Record
from kerolox.wire.bodies.body import Body
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue


class TransactionCheck(msgspec.Struct, frozen=True):
    """A broker asks what became of a transaction; the answer goes to `address`."""

    address: str
    record: Record
    tran_state_table_offset: int
    commit_log_offset: int
    message_id: str | None
    transaction_id: str | None


class ProducerMember(Protocol):
    async def check_transaction(self, check: TransactionCheck) -> None: ...


class DirectResult(Body, kw_only=True):
    """How consuming one message on demand went; the results are Java's CMResult names."""

    auto_commit: bool = True
    consume_result: str
    order: bool = False
    remark: str | None = None
    spent_time_mills: int = 0


class ConsumerMember(Protocol):
    """Texts are Java's names of enums."""

    @property
    def consume_type(self) -> str: ...

    @property
    def message_model(self) -> str: ...

    @property
    def consume_from_where(self) -> str: ...

    @property
    def is_unit(self) -> bool: ...

    def subscriptions(self) -> Sequence[SubscriptionData]:
        """Returns what the heartbeat says it wants, its retry topic included."""

    def rebalance_soon(self) -> None:
        """The group has changed; not to wait in."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def status(self, topic: str) -> Mapping[MessageQueue, int]:
        """Returns the offsets in its memory."""

    def running_info(self, *, has_stacks: bool) -> Body: ...

    async def consume_directly(self, message: Received) -> DirectResult: ...
