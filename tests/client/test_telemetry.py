"""Spans of real messages, exported by OpenTelemetry's in-memory exporter."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kerolox.client import ConsumeFrom, Message, Producer, PullConsumer, PushConsumer, Received, sync
from kerolox.client.errors import SendFailed
from kerolox.client.hooks import Consuming
from kerolox.client.producer.transactions import Decision, TransactionProducer
from kerolox.client.telemetry import Telemetry, context_of
from kerolox.testing import Cluster
from tests.client.sessions import options, until


class ExportedSpans:
    """A tracer provider, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hook = Telemetry(self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    @property
    def open_count(self) -> int:
        return len(self.hook._spans)


@pytest.fixture
def exported() -> Iterator[ExportedSpans]:
    it = ExportedSpans()
    yield it
    it.provider.shutdown()


def reader(cluster: Cluster) -> PullConsumer:
    first = ConsumeFrom.FIRST_OFFSET
    return PullConsumer("readers", topics="orders", consume_from=first, options=options(cluster))


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    trace_id: int = span.context.trace_id
    return trace_id


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_message_is_consumed_in_the_trace_of_its_send(
    is_plain: bool, cluster: Cluster, exported: ExportedSpans
) -> None:
    within: list[int] = []

    def plain(messages: list[Received]) -> None:
        within.append(trace.get_current_span().get_span_context().span_id)

    async def coroutine(messages: list[Received]) -> None:
        plain(messages)

    shared = options(cluster)
    async with Producer("shop", options=shared, hooks=[exported.hook]) as producer:
        with exported.provider.get_tracer("test").start_as_current_span("checkout") as checkout:
            result = await producer.send(Message("orders", b"body", tag="new", keys=["17"], properties={"own": "1"}))
    async with PushConsumer(
        "packers",
        plain if is_plain else coroutine,
        topics="orders",
        consume_from=ConsumeFrom.FIRST_OFFSET,
        hooks=[exported.hook],
        options=shared,
    ):
        await until(lambda: exported.named("process orders"))

    (sent,), (processed,) = exported.named("send orders"), exported.named("process orders")
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert trace_of(sent) == trace_of(processed) == checkout.get_span_context().trace_id
    assert sent.parent is not None
    assert sent.parent.span_id == checkout.get_span_context().span_id
    assert processed.parent is not None
    assert sent.context is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context is not None
    assert within == [processed.context.span_id]
    send_attributes = attributes(sent)
    assert send_attributes["messaging.system"] == "rocketmq"
    assert (send_attributes["messaging.message.id"], send_attributes["messaging.rocketmq.message.tag"]) == (
        result.message_id,
        "new",
    )
    assert attributes(processed)["messaging.consumer.group.name"] == "packers"
    assert [event.name for event in sent.events] == ["attempt"]
    assert exported.open_count == 0


async def test_a_call_with_several_messages_links_to_all_of_them(cluster: Cluster, exported: ExportedSpans) -> None:
    async with Producer("shop", options=options(cluster), hooks=[exported.hook]) as producer:
        await producer.send([Message("orders", b"one"), Message("orders", b"two")])
    async with reader(cluster) as consumer:
        found: list[Received] = []
        async for message in consumer:
            found.append(message)
            if len(found) == 2:
                break
    with exported.hook.around_consume(Consuming("readers", found[0].queue, found, 0)):
        pass

    sent = exported.named("send orders")
    (processed,) = exported.named("process orders")
    assert {link.context.span_id for link in processed.links} == {span.context.span_id for span in sent if span.context}
    assert attributes(processed)["messaging.batch.message_count"] == 2


async def test_context_of_returns_the_trace_of_a_message(cluster: Cluster, exported: ExportedSpans) -> None:
    async with Producer("shop", options=options(cluster), hooks=[exported.hook]) as producer:
        await producer.send(Message("orders", b"one"))
    async with reader(cluster) as consumer:
        message = await anext(consumer)
        found = trace.get_current_span(context_of(message)).get_span_context()

    (sent,) = exported.named("send orders")
    assert sent.context is not None
    assert (found.trace_id, found.span_id) == (sent.context.trace_id, sent.context.span_id)
    assert message.properties["traceparent"].startswith("00-")


async def test_a_failed_send_ends_its_span_with_an_error(cluster: Cluster, exported: ExportedSpans) -> None:
    async with Producer("shop", options=options(cluster), hooks=[exported.hook], send_timeout_seconds=0.2) as producer:
        cluster.brokers[0].settings.broker.auto_create_topic_enable = False
        cluster.brokers[0].settings.broker.broker_permission = 4
        with pytest.raises(SendFailed):
            await producer.send(Message("orders", b"one"))

    (sent,) = exported.named("send orders")
    assert sent.status.status_code is StatusCode.ERROR
    assert attributes(sent)["error.type"] == "SendFailed"
    assert exported.open_count == 0


async def test_oneway_and_half_messages_have_spans_too(cluster: Cluster, exported: ExportedSpans) -> None:
    async with Producer("shop", options=options(cluster), hooks=[exported.hook]) as producer:
        await producer.send_oneway(Message("oneway", b"one"))
    async with TransactionProducer(
        "shop2", lambda _: Decision.COMMIT, options=options(cluster), hooks=[exported.hook]
    ) as transactions:
        await transactions.send_in_transaction(Message("paid", b"two"), lambda _: Decision.COMMIT)

    assert len(exported.named("send oneway")) == len(exported.named("send paid")) == 1
    assert exported.open_count == 0


async def test_a_blocking_client_sends_in_the_trace_of_its_caller(cluster: Cluster, exported: ExportedSpans) -> None:
    def send() -> int:
        with sync.Producer("shop", namesrv_addr=cluster.namesrv_addr, hooks=[exported.hook]) as producer:
            with exported.provider.get_tracer("test").start_as_current_span("checkout") as checkout:
                producer.send(Message("orders", b"one"))
            return checkout.get_span_context().trace_id

    expected = await asyncio.to_thread(send)

    assert [trace_of(span) for span in exported.named("send orders")] == [expected]
