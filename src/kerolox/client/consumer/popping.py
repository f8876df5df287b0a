"""Taking messages from brokers for a time, and waiting until one of several has some."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kerolox.client.consumer.acknowledging import Acknowledging
from kerolox.client.consumer.receipts import receipts, times_of
from kerolox.client.consumer.subscriptions import TagFilter
from kerolox.client.messages import Received, received
from kerolox.client.session import Session
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError
from kerolox.message.record import decode_all
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import Command
from kerolox.wire.headers.pop import Notification, PopMessage, Popped

log = logging.getLogger(__name__)

# What a broker gives at most for one pop.
BATCH_SIZE_MAX: Final = 32
ANY_QUEUE: Final = -1
_FROM_FIRST, _FROM_LAST = 0, 1
_NOTHING = frozenset({ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})
# A poll is answered later than it says when the broker is busy.
_GRACE_SECONDS: Final = 10.0


class Target(NamedTuple):
    topic: str
    broker_name: str


class Popping:
    """Pops on behalf of a group; `wanted` says what it wants of a topic, None if nothing any more."""

    def __init__(
        self,
        session: Session,
        group: str,
        wanted: Callable[[str], SubscriptionData | None],
        acknowledging: Acknowledging,
        *,
        is_from_first: bool,
        is_ordered: bool,
    ) -> None:
        self._session = session
        self._options = session.options
        self._group = group
        self._wanted = wanted
        self._acknowledging = acknowledging
        self._init_mode = _FROM_FIRST if is_from_first else _FROM_LAST
        # Others know nothing of the field, and need not.
        self._order = True if is_ordered else None

    async def pop(
        self, targets: list[Target], count: int, invisible_seconds: float, wait_seconds: float
    ) -> list[Received]:
        """Returns messages of the first that has some; if there are several, none after a wait that may be over early.

        What the last failed with, if all of them fail.
        """
        if len(targets) == 1:
            return await self._pop(targets[0], count, invisible_seconds, wait_seconds)
        failures: list[KeroloxError] = []
        for target in targets:
            try:
                messages = await self._pop(target, count, invisible_seconds, 0)
            except KeroloxError as error:
                log.warning("%s of broker %s was not popped: %s", target.topic, target.broker_name, error)
                failures.append(error)
                continue
            if messages:
                return messages
        if len(failures) == len(targets):
            raise failures[-1]
        if wait_seconds > 0:
            await self._notified(targets, wait_seconds)
        return []

    async def _notified(self, targets: list[Target], wait_seconds: float) -> None:
        """Returns when one of them has something, or none has in time."""
        waits = [asyncio.ensure_future(self._notify(target, wait_seconds)) for target in targets]
        try:
            for done in asyncio.as_completed(waits):
                if await done:
                    return
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _notify(self, target: Target, wait_seconds: float) -> bool:
        request = Notification(
            consumer_group=self._group,
            topic=target.topic,
            queue_id=ANY_QUEUE,
            poll_time=int(wait_seconds * 1000),
            born_time=self._options.clock.millis(),
            order=self._order,
        )
        try:
            reply = await self._session.call(
                self._acknowledging.address(target.broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
            )
        except KeroloxError as error:
            log.warning("broker %s does not say when it has something: %s", target.broker_name, error)
            return False
        return reply.fields.has_msg

    async def _pop(self, target: Target, count: int, invisible_seconds: float, wait_seconds: float) -> list[Received]:
        wanted = self._wanted(target.topic)
        if wanted is None:
            return []
        request = PopMessage(
            consumer_group=self._group,
            topic=target.topic,
            queue_id=ANY_QUEUE,
            max_msg_nums=min(count, BATCH_SIZE_MAX),
            invisible_time=int(invisible_seconds * 1000),
            poll_time=int(wait_seconds * 1000),
            born_time=self._options.clock.millis(),
            init_mode=self._init_mode,
            exp_type=wanted.expression_type,
            exp=wanted.sub_string,
            order=self._order,
        )
        answer = await self._session.ask(
            self._acknowledging.address(target.broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
        )
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerError.of(answer.code, answer.remark)
        return self._received(target, answer, wanted)

    def _received(self, target: Target, answer: Command, wanted: SubscriptionData) -> list[Received]:
        popped, records = Popped.decode(answer.ext), decode_all(answer.body)
        messages: list[Received] = []
        unwanted: list[Received] = []
        is_wanted = TagFilter(wanted)
        times = times_of(popped.order_count_info)
        for record, receipt in zip(records, receipts(popped, records, target.broker_name), strict=True):
            queue = MessageQueue(target.broker_name, record.queue_id, record.topic)
            message = received(record, queue, self._options.unwrap(target.topic))
            message.receipt = receipt
            if times:
                message.reconsume_times = times.of(record)
            (messages if is_wanted.of([record]) else unwanted).append(message)
        if unwanted:
            self._session.run(self._acknowledging.ack(unwanted), "ack messages of other tags")
        return messages
