"""Pop requests to one or several brokers, with long polling (PopMessage, Notification)."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kerolox.client.consumer.fetch.receipt_handle import parse_order_count_info, receipt_handles
from kerolox.client.consumer.group.subscriptions import TagFilter
from kerolox.client.consumer.handle.acks import Acks
from kerolox.client.messages import Received, received
from kerolox.client.session.session import Session
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError
from kerolox.message.records.record import decode_all
from kerolox.wire.bodies.clients import SubscriptionData
from kerolox.wire.bodies.queues import MessageQueue
from kerolox.wire.command import Command
from kerolox.wire.headers.pop import Notification, PopMessage, Popped

log = logging.getLogger(__name__)

# The broker's limit of messages per pop.
BATCH_SIZE_MAX: Final = 32
ANY_QUEUE: Final = -1
_FROM_FIRST, _FROM_LAST = 0, 1
_NO_MESSAGES = frozenset({ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND})
# A busy broker may respond later than the poll time.
_GRACE_SECONDS: Final = 10.0


class PopTarget(NamedTuple):
    topic: str
    broker_name: str


class PopRequests:
    """Pops for a group. `subscription_of` returns the subscription of a topic, None if it has been unsubscribed."""

    def __init__(
        self,
        session: Session,
        group: str,
        subscription_of: Callable[[str], SubscriptionData | None],
        acks: Acks,
        *,
        is_from_first: bool,
        is_ordered: bool,
    ) -> None:
        self._session = session
        self._options = session.options
        self._group = group
        self._subscription_of = subscription_of
        self._acks = acks
        self._init_mode = _FROM_FIRST if is_from_first else _FROM_LAST
        # None omits the field; brokers default to false.
        self._order = True if is_ordered else None

    async def pop(
        self, targets: list[PopTarget], count: int, invisible_seconds: float, wait_seconds: float
    ) -> list[Received]:
        """Return messages of the first target that has some.

        With several targets, waiting ends when one of them may have messages, and the caller must pop again: the
        result is then an empty list before `wait_seconds` have passed. Raises the last error if all targets fail.
        """
        if len(targets) == 1:
            return await self._pop(targets[0], count, invisible_seconds, wait_seconds)
        failures: list[KeroloxError] = []
        for target in targets:
            try:
                messages = await self._pop(target, count, invisible_seconds, 0)
            except KeroloxError as error:
                log.warning("popping topic %s of broker %s failed: %s", target.topic, target.broker_name, error)
                failures.append(error)
                continue
            if messages:
                return messages
        if len(failures) == len(targets):
            raise failures[-1]
        if wait_seconds > 0:
            await self._wait_for_messages(targets, wait_seconds)
        return []

    async def _wait_for_messages(self, targets: list[PopTarget], wait_seconds: float) -> None:
        """Return when one of the targets has messages, or after the timeout."""
        waits = [asyncio.ensure_future(self._poll(target, wait_seconds)) for target in targets]
        try:
            for done in asyncio.as_completed(waits):
                if await done:
                    return
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _poll(self, target: PopTarget, wait_seconds: float) -> bool:
        """Return whether the target has messages, by a Notification request that waits until it does."""
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
                self._acks.address(target.broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
            )
        except KeroloxError as error:
            log.warning("polling broker %s failed: %s", target.broker_name, error)
            return False
        return reply.fields.has_msg

    async def _pop(
        self, target: PopTarget, count: int, invisible_seconds: float, wait_seconds: float
    ) -> list[Received]:
        subscription = self._subscription_of(target.topic)
        if subscription is None:
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
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            order=self._order,
        )
        response = await self._session.ask(
            self._acks.address(target.broker_name), request, timeout_seconds=wait_seconds + _GRACE_SECONDS
        )
        if response.code in _NO_MESSAGES:
            return []
        if response.code != ResponseCode.SUCCESS:
            raise AnswerError.of(response.code, response.remark)
        return self._received(target, response, subscription)

    def _received(self, target: PopTarget, response: Command, subscription: SubscriptionData) -> list[Received]:
        popped, records = Popped.decode(response.ext), decode_all(response.body)
        messages: list[Received] = []
        unwanted: list[Received] = []
        tag_filter = TagFilter(subscription)
        times = parse_order_count_info(popped.order_count_info)
        for record, receipt in zip(records, receipt_handles(popped, records, target.broker_name), strict=True):
            queue = MessageQueue(target.broker_name, record.queue_id, record.topic)
            message = received(record, queue, self._options.unwrap(target.topic))
            message.receipt = receipt
            if times:
                message.reconsume_times = times.of(record)
            (messages if tag_filter.filter([record]) else unwanted).append(message)
        if unwanted:
            # Acknowledged, because the broker would deliver them again and again.
            self._session.run_in_background(self._acks.ack(unwanted), "ack messages of other tags")
        return messages
