"""Messages lent to an iteration in another thread."""

from collections.abc import Iterator
from itertools import islice

import pytest

from kerolox.client.consumer.hand import Hand
from kerolox.client.loop_thread import LoopThread
from kerolox.client.sync import Message, MessageQueue, Options, Producer, PullConsumer
from kerolox.testing.plugin import RunningCluster

QUEUE = MessageQueue("broker-a", 0, "orders")


@pytest.fixture
def options(kerolox_cluster: RunningCluster) -> Options:
    """Of a queue with ten messages, which are their numbers."""
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


def test_a_message_is_done_once_the_next_is_asked_for(consumer: PullConsumer, options: Options) -> None:
    assert bodies(consumer, 4) == [0, 1, 2, 3]

    consumer.close()

    # Closing asks for the next, too.
    assert committed(options) == 4


def test_an_exception_leaves_the_last_undone(options: Options) -> None:
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


def test_whatever_else_is_asked_finds_what_the_iteration_left(consumer: PullConsumer) -> None:
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


def test_the_consumer_hears_of_what_was_done_while_the_iteration_goes_on(consumer: PullConsumer) -> None:
    loop_thread, inner = LoopThread.current(), consumer._inner
    hand = Hand(inner, tell_seconds=0)
    for _ in range(5):
        hand.next(loop_thread)

    async def offset() -> int | None:
        return inner.offsets.get(QUEUE)

    assert loop_thread.wait(offset()) == 4
