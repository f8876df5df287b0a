"""Message traces in the trace topic."""

import pytest

from kerolox.client.consumer.group.consume_from import ConsumeFrom
from kerolox.client.consumer.handle.results import Consumed
from kerolox.client.consumer.pull import PullConsumer
from kerolox.client.consumer.push import PushConsumer
from kerolox.client.hooks import Consuming
from kerolox.client.messages import Message, Received
from kerolox.client.producer.producer import Producer
from kerolox.client.producer.transactions import Decision, TransactionProducer
from kerolox.client.tracing import trace_format
from kerolox.client.tracing.trace_format import EndTransaction, Pub, Record, SubAfter, SubBefore
from kerolox.client.tracing.tracer import Tracing
from kerolox.testing import Cluster
from tests.client.consumer.consumers import RecordingHandler, sender
from tests.client.sessions import options, until


async def traced(cluster: Cluster, count: int) -> list[Received]:
    async with PullConsumer(
        "tools", topics=trace_format.TRACE_TOPIC, consume_from=ConsumeFrom.FIRST_OFFSET, options=options(cluster)
    ) as pull:
        messages: list[Received] = []
        while sum(len(records(message)) for message in messages) < count:
            messages += await pull.poll(timeout_seconds=1)
        return messages


def records(message: Received) -> list[Record]:
    return trace_format.decode(message.body.decode())


async def test_a_send_is_traced_and_found_by_its_id_and_keys(cluster: Cluster) -> None:
    async with (
        Tracing(options=options(cluster)) as tracing,
        Producer("shop", options=options(cluster), hooks=[tracing]) as producer,
    ):
        result = await producer.send(Message("orders", b"body", tag="TagA", keys=["k1", "k2"]))

    (message,) = await traced(cluster, 1)
    (pub,) = records(message)
    assert isinstance(pub, Pub)
    assert (pub.group, pub.topic, pub.message_id) == ("shop", "orders", result.message_id)
    assert (pub.tags, pub.keys, pub.body_size) == ("TagA", "k1 k2", 4)
    assert (pub.offset_id, pub.store_host) == (result.offset_id, cluster.brokers[0].address)
    assert (pub.region_id, pub.is_success, pub.message_type) == ("DefaultRegion", True, trace_format.NORMAL)
    assert message.keys == [result.message_id, "k1", "k2"]


async def test_each_message_of_a_batch_is_traced(cluster: Cluster) -> None:
    async with (
        Tracing(options=options(cluster)) as tracing,
        Producer("shop", options=options(cluster), hooks=[tracing]) as producer,
    ):
        result = await producer.send([Message("orders", b"one"), Message("orders", b"two")])

    (message,) = await traced(cluster, 2)
    pubs = records(message)
    assert [pub.message_id for pub in pubs] == result.message_ids
    assert [pub.offset_id for pub in pubs if isinstance(pub, Pub)] == result.offset_ids


async def test_consuming_is_traced_before_and_after(cluster: Cluster) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"fine", given={"UNIQ_KEY": "ID1", "KEYS": "k"})
        await brokers.send("orders", b"bad", given={"UNIQ_KEY": "ID2"})

        async def handle(messages: list[Received]) -> Consumed | None:
            return Consumed.LATER if messages[0].body == b"bad" else None

        async with PushConsumer(
            "group",
            handle,
            topics="orders",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            enable_trace=True,
            options=options(cluster),
        ) as push:
            await until(lambda: push.statistics.of("orders").calls == 2)

    (message,) = await traced(cluster, 4)
    before, after, bad_before, bad_after = records(message)
    assert isinstance(before, SubBefore)
    assert isinstance(after, SubAfter)
    assert (before.group, before.message_id, before.keys, before.retry_times) == ("group", "ID1", "k", 0)
    assert (after.group, after.message_id, after.keys) == ("group", "ID1", "k")
    assert before.request_id == after.request_id
    assert (after.is_success, after.context_code) == (True, trace_format.SUCCESS)
    assert isinstance(bad_before, SubBefore)
    assert isinstance(bad_after, SubAfter)
    assert bad_before.request_id != before.request_id
    assert (bad_after.is_success, bad_after.context_code) == (False, trace_format.FAILED)
    assert set(message.keys) == {"ID1", "ID2", "k"}


async def test_untraced_messages_are_not_traced(cluster: Cluster) -> None:
    async with sender(cluster) as brokers, Tracing(options=options(cluster)) as tracing:
        await brokers.send("orders", b"body", given={"TRACE_ON": "false"})
        recorder = RecordingHandler()
        async with PushConsumer(
            "group",
            recorder,
            topics="orders",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            hooks=[tracing],
            options=options(cluster),
        ):
            await until(lambda: recorder.messages)

        assert not tracing._dispatcher._waiting


class FailingHook:
    def __init__(self) -> None:
        self.notified: list[Consuming] = []

    def after_consume(self, consuming: Consuming) -> None:
        self.notified.append(consuming)
        raise ValueError("a hook that fails")


async def test_a_failing_hook_does_not_affect_consuming(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async with sender(cluster) as brokers:
        await brokers.send("orders", b"body")
        hook = FailingHook()
        async with PushConsumer(
            "group",
            RecordingHandler(ValueError("broken")),
            topics="orders",
            consume_from=ConsumeFrom.FIRST_OFFSET,
            hooks=[hook],
            options=options(cluster),
        ):
            await until(lambda: hook.notified)

    (notified,) = hook.notified
    assert (notified.consumer_group, notified.is_success, str(notified.error)) == ("group", False, "broken")
    assert "a hook that fails" in caplog.text


async def test_the_end_of_a_transaction_is_traced(cluster: Cluster) -> None:
    async def commit(message: Message) -> Decision:
        return Decision.COMMIT

    async def unknown(message: Received) -> Decision:
        return Decision.UNKNOWN

    async with (
        Tracing(options=options(cluster)) as tracing,
        TransactionProducer("shop", unknown, options=options(cluster), hooks=[tracing]) as producer,
    ):
        await producer.send_in_transaction(Message("orders", b"body", tag="TagA"), commit)

    (message,) = await traced(cluster, 2)
    half, ended = records(message)
    assert isinstance(half, Pub)
    assert half.message_type == trace_format.TRANSACTION_HALF
    assert isinstance(ended, EndTransaction)
    assert (ended.topic, ended.tags, ended.message_id) == ("orders", "TagA", half.message_id)
    assert (ended.transaction_state, ended.is_from_check) == ("COMMIT_MESSAGE", False)
