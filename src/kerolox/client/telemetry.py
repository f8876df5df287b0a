"""Spans of OpenTelemetry for what is sent and consumed; a message carries its trace from one to the other.

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

# Spans of messages whose end is never told would stay for ever.
_SPANS_MAX = 100_000
# Of a call for many messages, the first so many are linked to.
_LINKS_MAX = 128


class Telemetry:
    """`hooks=[Telemetry()]` for producers and push consumers. Without a provider, the one of the process is used.

    The properties that carry a trace are those of the process's propagator: `traceparent` unless set otherwise. Names
    and attributes of spans follow OpenTelemetry's conventions for messaging.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("kerolox", kerolox.__version__, tracer_provider)
        self._spans: dict[int, tuple[Message, Span]] = {}

    # For producers

    def begin_message(self, message: Message, producer_group: str) -> Message:
        """Begins a span below the one that is current, and returns the message with its trace."""
        attributes = _attributes("send", message.topic) | {
            "messaging.rocketmq.client_group": producer_group,
            "messaging.message.body.size": len(message.body),
        }
        if message.tag:
            attributes["messaging.rocketmq.message.tag"] = message.tag
        if message.keys:
            attributes["messaging.rocketmq.message.keys"] = list(message.keys)
        span = self._tracer.start_span(f"send {message.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        carried: dict[str, str] = {}
        propagate.inject(carried, trace.set_span_in_context(span))
        given = dataclasses.replace(message, properties={**message.properties, **carried})
        if len(self._spans) < _SPANS_MAX:
            self._spans[id(given)] = (given, span)
        return given

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
        """Each attempt is a part of the span that its message has."""

    def after_send(self, sending: Sending) -> None:
        for message in sending.messages:
            _, span = self._spans.get(id(message), (None, None))
            if span is not None:
                told = {} if sending.error is None else {"error": str(sending.error)}
                span.add_event("attempt", {"server.address": sending.broker_address, **told})

    # For consumers

    @contextmanager
    def around_consume(self, consuming: Consuming) -> Iterator[None]:
        """A span around the handler: below that of its message or, of several, linked to theirs."""
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
        """The span has ended with the handler."""


def context_of(message: Received) -> Context:
    """Returns the context in which a message was sent, for those who consume without a handler."""
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
