"""Message traces of producers and consumers: a hook for both, which sends what it is told to the trace topic."""

import itertools
from typing import Self, Unpack

from kerolox.client import trace
from kerolox.client.hooks import Consuming, EndedTransaction, Sending
from kerolox.client.lifecycle import Lifecycle
from kerolox.client.messages import Received, SendStatus
from kerolox.client.options import Options, Shared, options_of
from kerolox.client.producer.producer import Producer
from kerolox.client.trace import GROUP_PREFIX, TRACE_TOPIC, EndTransaction, Pub, SubAfter, SubBefore, Traces
from kerolox.message import hosts, names
from kerolox.message.ids import UniqueIds

_DEFAULT_REGION = "DefaultRegion"
_SEND_SECONDS = 5.0
_count = itertools.count(1)


class Tracing:
    """`async with Tracing(namesrv_addr=...) as tracing:`, and then `hooks=[tracing]` for producers and consumers.

    With `options` of theirs, it shares their session.
    """

    def __init__(
        self,
        *,
        topic: str = TRACE_TOPIC,
        name: str = "CLIENT",
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
            max_message_size=2 * trace.BODY_SIZE_MAX,
        )
        self._ids = UniqueIds(hosts.pack(self._options.ip, 0)[:-4], clock=self._options.clock)
        self._traces = Traces(self._producer.send, self._options.clock, topic=topic)

    async def start(self) -> None:
        self._lifecycle.begin()
        try:
            await self._producer.start()
        except BaseException:
            self._lifecycle.end()
            raise
        self._traces.start()
        self._lifecycle.begun()

    async def close(self) -> None:
        """Sends what is waiting. Closing twice does nothing."""
        if self._lifecycle.end():
            await self._traces.close()
            await self._producer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # For producers

    def before_send(self, sending: Sending) -> None:
        """What is not sent yet is not traced."""

    def after_send(self, sending: Sending) -> None:
        result, messages = sending.result, sending.messages
        if result is None or not result.is_traced or messages[0].topic == self._topic:
            return
        cost_millis = self._options.clock.millis() - sending.started_millis
        offset_ids = result.offset_ids
        for index, (message, message_id) in enumerate(zip(messages, sending.message_ids, strict=True)):
            self._traces.add(
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
        self._traces.add(
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
            keys = message.properties.get(names.KEYS)
            self._traces.add(
                SubBefore(
                    timestamp=consuming.started_millis,
                    region_id=message.properties.get(names.MSG_REGION, _DEFAULT_REGION),
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
    return message.properties.get(names.TRACE_ON) != "false"


def _code(consuming: Consuming) -> int:
    if consuming.error is not None:
        return trace.EXCEPTION
    return trace.SUCCESS if consuming.is_success else trace.FAILED
