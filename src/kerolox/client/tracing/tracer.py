"""A hook for producers and consumers that sends message traces to the trace topic (SendMessageTraceHookImpl)."""

import itertools
from typing import Self, Unpack

from kerolox.client.hooks import Consuming, EndedTransaction, Sending
from kerolox.client.messages import Received, SendStatus
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.producer.producer import Producer
from kerolox.client.session.lifecycle import Lifecycle
from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import (
    GROUP_PREFIX,
    TRACE_TOPIC,
    EndTransaction,
    Pub,
    SubAfter,
    SubBefore,
    TraceDispatcher,
)
from kerolox.message import hosts, property_names
from kerolox.message.ids import UniqueIds

_DEFAULT_REGION = "DefaultRegion"
_SEND_SECONDS = 5.0
_count = itertools.count(1)


class Tracing:
    """`async with Tracing(namesrv_addr=...) as tracing:`, and then `hooks=[tracing]` for producers and consumers.

    With their `options`, it shares their session. At most `waiting_max` records are queued; records beyond that are
    dropped, counted in `lost_count`, and logged as a warning.
    """

    def __init__(
        self,
        *,
        topic: str = TRACE_TOPIC,
        name: str = "CLIENT",
        waiting_max: int = trace_format.WAITING_MAX,
        options: Options | None = None,
        **shared: Unpack[Shared],
    ) -> None:
        self._options = options_of(options, **shared)
        self._topic = topic
        self._lifecycle = Lifecycle("tracing")
        self._producer = Producer(
            f"{GROUP_PREFIX}-{name}-{next(_count)}",
            options=self._options,
            send_timeout_seconds=_SEND_SECONDS,
            max_message_size=2 * trace_format.BODY_SIZE_MAX,
        )
        self._ids = UniqueIds(hosts.pack(self._options.ip, 0)[:-4], clock=self._options.clock)
        self._dispatcher = TraceDispatcher(
            self._producer.send, self._options.clock, topic=topic, waiting_max=waiting_max
        )

    async def start(self) -> None:
        self._lifecycle.set_starting()
        try:
            await self._producer.start()
        except BaseException:
            self._lifecycle.set_closed()
            raise
        self._dispatcher.start()
        self._lifecycle.set_running()

    async def close(self) -> None:
        """Send the queued records. Closing twice does nothing."""
        if self._lifecycle.set_closed():
            await self._dispatcher.close()
            await self._producer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def sent_count(self) -> int:
        """Number of records sent to the trace topic."""
        return self._dispatcher.sent_count

    @property
    def lost_count(self) -> int:
        """Number of records dropped because too many were queued, or because they could not be sent."""
        return self._dispatcher.lost_count

    @property
    def waiting_count(self) -> int:
        """Number of queued records."""
        return self._dispatcher.waiting_count

    # For producers

    def before_send(self, sending: Sending) -> None:
        """Do nothing: a send is traced when it has ended."""

    def after_send(self, sending: Sending) -> None:
        result, messages = sending.result, sending.messages
        if result is None or not result.is_traced or messages[0].topic == self._topic:
            return
        cost_millis = self._options.clock.millis() - sending.started_millis
        offset_ids = result.offset_ids
        for index, (message, message_id) in enumerate(zip(messages, sending.message_ids, strict=True)):
            self._dispatcher.add(
                Pub(
                    timestamp=sending.started_millis,
                    region_id=result.region_id,
                    group=self._options.unwrap(sending.producer_group),
                    topic=message.topic,
                    message_id=message_id,
                    tags=message.tag,
                    keys=" ".join(message.keys) or None,
                    store_host=sending.broker_address,
                    body_size=len(message.body),
                    cost_millis=cost_millis,
                    message_type=sending.message_type,
                    offset_id=offset_ids[min(index, len(offset_ids) - 1)],
                    is_success=result.status is SendStatus.OK,
                )
            )

    def after_end(self, ended: EndedTransaction) -> None:
        self._dispatcher.add(
            EndTransaction(
                timestamp=ended.ended_millis,
                region_id=_DEFAULT_REGION,
                group=self._options.unwrap(ended.producer_group),
                topic=ended.topic,
                message_id=ended.message_id,
                tags=ended.tags,
                keys=" ".join(ended.keys) or None,
                store_host=ended.broker_address,
                transaction_id=ended.transaction_id,
                transaction_state=ended.state,
                is_from_check=ended.is_from_check,
            )
        )

    # For consumers

    def after_consume(self, consuming: Consuming) -> None:
        messages = [message for message in consuming.messages if _is_traced(message)]
        if not messages:
            return
        group, request_id = self._options.unwrap(consuming.consumer_group), self._ids.make()
        cost_millis = int(consuming.seconds * 1000 / len(consuming.messages))
        for message in messages:
            keys = message.properties.get(property_names.KEYS)
            self._dispatcher.add(
                SubBefore(
                    timestamp=consuming.started_millis,
                    region_id=message.properties.get(property_names.MSG_REGION, _DEFAULT_REGION),
                    group=group,
                    request_id=request_id,
                    message_id=message.message_id,
                    retry_times=message.reconsume_times,
                    keys=keys,
                ),
                SubAfter(
                    request_id=request_id,
                    message_id=message.message_id,
                    cost_millis=cost_millis,
                    is_success=consuming.is_success,
                    keys=keys,
                    context_code=_code(consuming),
                    timestamp=self._options.clock.millis(),
                    group=group,
                ),
            )


def _is_traced(message: Received) -> bool:
    return message.properties.get(property_names.TRACE_ON) != "false"


def _code(consuming: Consuming) -> int:
    if consuming.error is not None:
        return trace_format.EXCEPTION
    return trace_format.SUCCESS if consuming.is_success else trace_format.FAILED
