"""OpenTelemetry spans for sends and handler calls. Messages carry the trace context in their properties.

Needs the extra `otel`.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.util.types import AttributeValue

import kerolox
from kerolox.client.hooks import Consuming, Sending
from kerolox.client.messages import Message, Received, SendResult
from kerolox.wire.bodies.queues import MessageQueue

# Bounds the memory if `end_message` is not called for some messages.
_SPANS_MAX = 100_000
# Links per span of a handler call with many messages.
_LINKS_MAX = 128


class Telemetry:
    """`hooks=[Telemetry()]` for producers and push consumers. The default provider is the global one.

    The trace context is carried in the properties of the global propagator, by default `traceparent`. Names and
    attributes of spans follow OpenTelemetry's semantic conventions for messaging.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("kerolox", kerolox.__version__, tracer_provider)
        self._spans: dict[int, tuple[Message, Span]] = {}

    # For producers

    def begin_message(self, message: Message, producer_group: str) -> Message:
        """Start a child span of the current span, and return the message with its trace context."""
        attributes = _attributes("send", message.topic) | {
            "messaging.rocketmq.client_group": producer_group,
            "messaging.message.body.size": len(message.body),
        }
        if message.tag:
            attributes["messaging.rocketmq.message.tag"] = message.tag
        if message.keys:
            attributes["messaging.rocketmq.message.keys"] = list(message.keys)
        span = self._tracer.start_span(f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        traced = dataclasses.replace(message, properties={**message.properties, **carrier})
        if len(self._spans) < _SPANS_MAX:
            # The message is kept too, so that its id is not reused while the span is open.
            self._spans[id(traced)] = (traced, span)
        return traced

    def end_message(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        _, span = self._spans.pop(id(message), (None, None))
        if span is None:
            return
        if result is not None:
            span.set_attribute("messaging.message.id", result.message_id)
            span.set_attribute(
                "messaging.destination.partition.id", f"{result.queue.broker_name}/{result.queue.queue_id}"
            )
        if error is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            span.set_attribute("error.type", type(error).__qualname__)
        span.end()

    def before_send(self, sending: Sending) -> None:
        """Do nothing: attempts are events of the message's span."""

    def after_send(self, sending: Sending) -> None:
        for message in sending.messages:
            _, span = self._spans.get(id(message), (None, None))
            if span is not None:
                error = {} if sending.error is None else {"error": str(sending.error)}
                span.add_event("attempt", {"server.address": sending.broker_address, **error})

    # For consumers

    @contextmanager
    def around_consume(self, consuming: Consuming) -> Iterator[None]:
        """A span around the handler: a child of its message's span or, for several messages, linked to their spans."""
        messages = consuming.messages
        first = messages[0]
        attributes = _attributes("process", first.topic) | {
            "messaging.consumer.group.name": consuming.consumer_group,
            "messaging.destination.partition.id": _partition(first.queue),
        }
        parent: Context | None = None
        links: list[Link] = []
        if len(messages) == 1:
            parent = context_of(first)
            attributes["messaging.message.id"] = first.message_id
            attributes["messaging.message.body.size"] = len(first.body)
        else:
            attributes["messaging.batch.message_count"] = len(messages)
            contexts = (trace.get_current_span(context_of(it)).get_span_context() for it in messages[:_LINKS_MAX])
            links = [Link(context) for context in contexts if context.is_valid]
        with self._tracer.start_as_current_span(
            f"process {first.topic}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        ):
            yield

    def after_consume(self, consuming: Consuming) -> None:
        """Do nothing: the span ended when the handler returned."""


def context_of(message: Received) -> Context:
    """Return the trace context of a message, for consumers without a handler."""
    return propagate.extract(message.properties)


def _partition(queue: MessageQueue) -> str:
    return f"{queue.broker_name}/{queue.queue_id}"


def _attributes(operation: str, topic: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }
