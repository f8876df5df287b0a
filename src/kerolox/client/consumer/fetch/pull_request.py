"""Pull requests (PullAPIWrapper)."""

from dataclasses import dataclass
from typing import Final

from kerolox.client.consumer.session_interface import SessionInterface
from kerolox.client.session.topic_routes import MASTER_ID
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed, RemotingError
from kerolox.message import sysflag
from kerolox.message.message import Message as Record
from kerolox.message.records import batch
from kerolox.message.records.record import decode_all
from kerolox.wire.bodies.clients import SQL92, SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import Pulled, PullMessage

COMMIT_BIT, SUSPEND_BIT, SUBSCRIPTION_BIT, LITE_BIT = 1, 2, 4, 16

# How long a broker may hold a pull request until a message arrives.
SUSPEND_SECONDS: Final = 15.0
# The timeout of a request that may be held is that much longer; of one that may not, TIMEOUT_SECONDS.
_GRACE_SECONDS: Final = 15.0
TIMEOUT_SECONDS: Final = 10.0

_MOVED = ResponseCode.PULL_OFFSET_MOVED.value
_EXPECTED_CODES = frozenset(
    {
        ResponseCode.SUCCESS.value,
        ResponseCode.PULL_NOT_FOUND.value,
        ResponseCode.PULL_RETRY_IMMEDIATELY.value,
        _MOVED,
    }
)


@dataclass(frozen=True, slots=True)
class PullResult:
    """The result of a pull. Even without records, `next_offset` may be later than the offset of the request."""

    records: list[Record]
    next_offset: int
    min_offset: int
    max_offset: int
    # The broker id, in the same broker group, to pull from next.
    broker_id: int
    # The requested offset is out of range; continue at `next_offset`.
    is_offset_illegal: bool


class Puller:
    """Pulls messages for one group."""

    def __init__(
        self,
        session: SessionInterface,
        group: str,
        *,
        batch_size: int = 32,
        batch_bytes: int = 256 * 1024,
        suspend_seconds: float = SUSPEND_SECONDS,
        has_expression: bool = False,
        is_lite: bool = False,
    ) -> None:
        self._session = session
        self._group = group
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._suspend_seconds = suspend_seconds
        self._timeout_seconds = suspend_seconds + _GRACE_SECONDS if suspend_seconds else TIMEOUT_SECONDS
        # Whether requests contain the subscription; otherwise the broker uses that of the last heartbeat.
        self._has_expression = has_expression
        self._flags = (
            (SUSPEND_BIT if suspend_seconds else 0)
            | (SUBSCRIPTION_BIT if has_expression else 0)
            | (LITE_BIT if is_lite else 0)
        )

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: SubscriptionData,
        *,
        broker_id: int = MASTER_ID,
        commit_offset: int | None = None,
    ) -> PullResult:
        """Pull messages from `offset`, waiting while the broker holds the request.

        Raises AnswerError if the broker refuses, RemotingError if it cannot be reached.
        """
        found = self._session.routes.readable_address(queue.broker_name, broker_id)
        if found is None:
            raise ConnectFailed(f"the address of broker {queue.broker_name} is unknown")
        broker_id, address = found
        flags = self._flags
        if commit_offset and broker_id == MASTER_ID:
            flags |= COMMIT_BIT
        is_tag = subscription.expression_type != SQL92
        request = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._batch_size,
            sys_flag=flags,
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=int(self._suspend_seconds * 1000),
            subscription=subscription.sub_string if self._has_expression else None,
            sub_version=0 if self._has_expression and is_tag else subscription.sub_version,
            expression_type=subscription.expression_type,
            max_msg_bytes=self._batch_bytes,
        )
        try:
            response = await self._session.ask(address, request, timeout_seconds=self._timeout_seconds)
        except RemotingError:
            # The broker may be gone; a new route has another one of its group.
            self._session.refresh_route_soon(queue.topic)
            raise
        if response.code not in _EXPECTED_CODES:
            raise AnswerError.of(response.code, response.remark)
        header = Pulled.decode(response.ext)
        return PullResult(
            _records(response.body),
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            header.suggest_which_broker_id,
            response.code == _MOVED,
        )


def _records(body: bytes) -> list[Record]:
    if not body:
        return []
    records = decode_all(body)
    for record in records:
        if record.sys_flag & sysflag.INNER_BATCH:
            return [part for record in records for part in _parts(record)]
    return records


def _parts(record: Record) -> list[Record]:
    """Return the messages of a batch that is stored as one record (BatchCQ topics of 5.x)."""
    if not (record.sys_flag & sysflag.INNER_BATCH and record.sys_flag & sysflag.NEED_UNWRAP):
        return [record]
    return [
        Record(
            record.topic,
            part.body,
            part.properties,
            record.queue_id,
            part.flag,
            record.sys_flag & ~(sysflag.INNER_BATCH | sysflag.NEED_UNWRAP),
            record.born_timestamp,
            record.born_host,
            record.store_timestamp,
            record.store_host,
            record.reconsume_times,
            record.prepared_transaction_offset,
            record.queue_offset + index,
            record.physical_offset,
        )
        for index, part in enumerate(batch.decode(record.body))
    ]
