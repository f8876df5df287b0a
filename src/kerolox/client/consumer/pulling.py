"""One pull: what a broker has of a queue from an offset on, and where to go on."""

from dataclasses import dataclass
from typing import Final

from kerolox.client.consumer.brokers import Brokers
from kerolox.client.routes import MASTER_ID
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, ConnectFailed
from kerolox.message import batch, sysflag
from kerolox.message.message import Message as Record
from kerolox.message.record import decode_all
from kerolox.wire.bodies.clients import SQL92, SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.headers.messages import Pulled, PullMessage

COMMIT_BIT, SUSPEND_BIT, SUBSCRIPTION_BIT, LITE_BIT = 1, 2, 4, 16

# How long a broker may keep a pull until something comes, and how long we wait for it to answer.
SUSPEND_SECONDS: Final = 15.0
TIMEOUT_WHEN_SUSPENDED_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 10.0

_MOVED = ResponseCode.PULL_OFFSET_MOVED.value
_ANSWERS = frozenset(
    {
        ResponseCode.SUCCESS.value,
        ResponseCode.PULL_NOT_FOUND.value,
        ResponseCode.PULL_RETRY_IMMEDIATELY.value,
        _MOVED,
    }
)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a pull. Where nothing was found for us, there may still be a later offset to go on from."""

    records: list[Record]
    next_offset: int
    min_offset: int
    max_offset: int
    # From which member of the broker group to read next.
    broker_id: int
    # The queue has no such offset; it has `next_offset`.
    is_moved: bool


class Puller:
    """Pulls for one group."""

    def __init__(
        self,
        brokers: Brokers,
        group: str,
        *,
        batch_size: int = 32,
        batch_bytes: int = 256 * 1024,
        suspend_seconds: float = SUSPEND_SECONDS,
        has_expression: bool = False,
        is_lite: bool = False,
    ) -> None:
        self._brokers = brokers
        self._group = group
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._suspend_seconds = suspend_seconds
        self._timeout_seconds = suspend_seconds + 15 if suspend_seconds else TIMEOUT_SECONDS
        # Whether each pull says what is wanted; else the broker goes by the last heartbeat.
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
        wanted: SubscriptionData,
        *,
        broker_id: int = MASTER_ID,
        commit_offset: int | None = None,
    ) -> Found:
        """Returns what is there; waits for it as long as the broker is willing to.

        AnswerError if the broker refuses, RemotingError if it cannot be reached.
        """
        address, is_master = self._address(queue.broker_name, broker_id)
        flags = self._flags
        if commit_offset and is_master:
            flags |= COMMIT_BIT
        is_tag = wanted.expression_type != SQL92
        request = PullMessage(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._batch_size,
            sys_flag=flags,
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=int(self._suspend_seconds * 1000),
            subscription=wanted.sub_string if self._has_expression else None,
            sub_version=0 if self._has_expression and is_tag else wanted.sub_version,
            expression_type=wanted.expression_type,
            max_msg_bytes=self._batch_bytes,
        )
        answer = await self._brokers.ask(address, request, timeout_seconds=self._timeout_seconds)
        if answer.code not in _ANSWERS:
            raise AnswerError.of(answer.code, answer.remark)
        header = Pulled.decode(answer.ext)
        return Found(
            _records(answer.body),
            header.next_begin_offset,
            header.min_offset,
            header.max_offset,
            header.suggest_which_broker_id,
            answer.code == _MOVED,
        )

    def _address(self, broker_name: str, broker_id: int) -> tuple[str, bool]:
        """Returns whom to ask, and whether that is a master: the one suggested, or who else there is."""
        addresses = self._brokers.routes.address
        for candidate in dict.fromkeys((broker_id, broker_id + 1, MASTER_ID, 1)):
            found = addresses(broker_name, candidate)
            if found is not None:
                return found, candidate == MASTER_ID
        raise ConnectFailed(f"no address of broker {broker_name} is known")


def _records(body: bytes) -> list[Record]:
    if not body:
        return []
    records = decode_all(body)
    for record in records:
        if record.sys_flag & sysflag.INNER_BATCH:
            return [part for record in records for part in _parts(record)]
    return records


def _parts(record: Record) -> list[Record]:
    """Returns the messages of a batch that is stored as one record (BatchCQ topics of 5.x)."""
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
