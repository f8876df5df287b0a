"""Iterating over a pull consumer from another thread."""

from collections.abc import Iterator
from itertools import islice

import pytest

from kerolox.client.blocking.iterator import ThreadIterator
from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.sync import Message, MessageQueue, Options, Producer, PullConsumer
from kerolox.testing.plugin import RunningCluster

QUEUE = MessageQueue("broker-a", 0, "orders")


@pytest.fixture
def options(kerolox_cluster: RunningCluster) -> Options:
    """Options of a cluster whose queue has ten messages, with their numbers as bodies."""
    options = Options(namesrv_addr=kerolox_cluster.namesrv_addr, client_ip="127.0.0.1")
    with Producer("senders", options=options) as producer:
        for number in range(10):
            producer.send(Message("orders", b"%d" % number), queue=QUEUE)
    return options


@pytest.fixture
def consumer(options: Options) -> Iterator[PullConsumer]:
    with PullConsumer("group", options=options) as consumer:
        consumer.assign([QUEUE])
        consumer.seek_to_begin(QUEUE)
        yield consumer


def bodies(consumer: PullConsumer, count: int) -> list[int]:
    return [int(message.body) for message in islice(consumer, count)]


def committed(options: Options) -> int | None:
    with PullConsumer("group", options=options) as other:
        assert QUEUE in other.queues("orders")
        return other.committed(QUEUE)


def test_requesting_the_next_message_consumes_one(consumer: PullConsumer, options: Options) -> None:
    assert bodies(consumer, 4) == [0, 1, 2, 3]

    consumer.close()

    # Closing consumes the last message too.
    assert committed(options) == 4


def test_an_exception_leaves_the_last_message_unconsumed(options: Options) -> None:
    def fail_at_three() -> None:
        with PullConsumer("group", options=options) as consumer:
            consumer.assign([QUEUE])
            consumer.seek_to_begin(QUEUE)
            for message in consumer:
                if message.body == b"3":
                    raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        fail_at_three()

    assert committed(options) == 3


def test_other_methods_see_the_messages_that_the_iteration_holds(consumer: PullConsumer) -> None:
    assert bodies(consumer, 2) == [0, 1]
    polled: list[int] = []
    while len(polled) < 3:
        polled += [int(message.body) for message in consumer.poll(3 - len(polled))]
    assert polled == [2, 3, 4]
    assert bodies(consumer, 2) == [5, 6]
    consumer.commit()
    assert consumer.committed(QUEUE) == 7
    assert bodies(consumer, 1) == [7]
    consumer.seek(QUEUE, 1)
    assert bodies(consumer, 9) == list(range(1, 10))


def test_consumed_messages_are_reported_during_the_iteration(consumer: PullConsumer) -> None:
    loop_thread, inner = LoopThread.current(), consumer._inner
    iterator = ThreadIterator(inner, report_seconds=0)
    for _ in range(5):
        iterator.next(loop_thread)

    async def offset() -> int | None:
        return inner.offsets.get(QUEUE)

    assert loop_thread.wait(offset()) == 4
