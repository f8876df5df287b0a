"""The client that blocks."""

import asyncio
import inspect
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from kerolox import client as aio
from kerolox.client import sync
from kerolox.client.consumer import reading
from kerolox.client.members import ConsumerMember, ProducerMember
from kerolox.client.sync import (
    ConsumeFrom,
    Decision,
    Message,
    Options,
    Producer,
    PullConsumer,
    PushConsumer,
    Received,
    Sending,
    SimpleConsumer,
    Tracing,
    TransactionProducer,
    WrongState,
)
from kerolox.testing.plugin import RunningCluster
from tests.client.forks import in_fork
from tests.client.surfaces import complaints
from tests.client.test_loop_thread import interrupted

CLIENTS = ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "SimpleConsumer"]
# What sessions and readers ask of clients is public, and not for users.
INNER = {
    *dir(ProducerMember),
    *dir(ConsumerMember),
    *dir(reading.Consumer),
    *reading.Consumer.__annotations__,
    "is_orderly",
    "concurrency",
    *("lend", "settle", "put_back", "take_back"),
    "membership",
    "started_millis",
    "locks",
} - {"options"}


@pytest.fixture
def options(kerolox_cluster: RunningCluster) -> Options:
    return Options(namesrv_addr=kerolox_cluster.namesrv_addr, client_ip="127.0.0.1")


@pytest.fixture
def producer(options: Options) -> Iterator[Producer]:
    with Producer("senders", options=options) as producer:
        yield producer


def read(options: Options, topic: str, count: int, group: str = "readers") -> list[bytes]:
    bodies = []
    with PullConsumer(group, topics=topic, options=options, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == count:
                return bodies
    raise AssertionError(f"closed after {len(bodies)} messages")


# The surface


def test_both_have_the_same_names_and_share_all_but_the_clients() -> None:
    assert sync.__all__ == aio.__all__
    assert [name for name in aio.__all__ if getattr(sync, name) is not getattr(aio, name)] == sorted(
        [*CLIENTS, "Tracing"]
    )


@pytest.mark.parametrize("name", [*CLIENTS, "Tracing"])
def test_a_client_has_the_methods_of_the_other_with_their_signatures(name: str) -> None:
    assert complaints(getattr(sync, name), getattr(aio, name), INNER) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_has_the_attributes_of_the_other(name: str) -> None:
    keywords: dict[str, Any] = {"namesrv_addr": "127.0.0.1:9876"}
    if "Consumer" in name:
        keywords["topics"] = "orders"
    arguments = ["group", print] if name in ("TransactionProducer", "PushConsumer") else ["group"]
    asynchronous = getattr(aio, name)(*arguments, **keywords)
    blocking = getattr(sync, name)(*arguments, **keywords)

    names = {attribute for attribute in vars(asynchronous) if not attribute.startswith("_")} - INNER

    assert [attribute for attribute in names if not hasattr(blocking, attribute)] == []
    assert {"group", "options"} <= names


def test_help_speaks_of_with_and_not_of_async_with() -> None:
    for name in CLIENTS:
        kind = getattr(sync, name)
        texts = [kind.__doc__, *(inspect.getdoc(getattr(kind, method)) for method in dir(kind) if method[0] != "_")]
        assert [text for text in texts if "async" in (text or "") or "await" in (text or "")] == [], name
    assert str(inspect.signature(SimpleConsumer.renewing)).endswith("collections.abc.Iterator[" + str(_received()))


def _received() -> str:
    return f"{Received.__module__}.{Received.__qualname__}]"


# Sending and receiving


def test_what_many_threads_send_at_once_is_all_there(producer: Producer, options: Options) -> None:
    def send(number: int) -> str:
        return producer.send(Message("orders", b"%d" % number)).message_id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(send, range(100)))

    assert len(set(ids)) == 100
    assert sorted(map(int, read(options, "orders", 100))) == list(range(100))


def test_a_handler_is_called_in_threads_and_may_send(producer: Producer, options: Options) -> None:
    threads: set[str] = set()
    main = threading.current_thread().name

    def forward(messages: list[Received]) -> None:
        threads.add(threading.current_thread().name)
        producer.send([Message("forwarded", message.body) for message in messages])

    for number in range(10):
        producer.send(Message("orders", b"%d" % number))
    with PushConsumer("forwarders", forward, topics="orders", options=options, consume_from=ConsumeFrom.FIRST_OFFSET):
        assert sorted(map(int, read(options, "forwarded", 10))) == list(range(10))

    assert main not in threads
    assert all("event loop" not in name for name in threads)


def test_a_consumer_that_is_suspended_reads_on_when_it_is_resumed(producer: Producer, options: Options) -> None:
    bodies: SimpleQueue[bytes] = SimpleQueue()

    def handle(messages: list[Received]) -> None:
        bodies.put(messages[0].body)

    producer.send(Message("orders", b"first"))
    with PushConsumer(
        "group", handle, topics="orders", options=options, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        assert bodies.get(timeout=30) == b"first"
        consumer.suspend()
        consumer.resume()
        producer.send(Message("orders", b"second"))
        assert bodies.get(timeout=30) == b"second"
        assert {queue.topic for queue in consumer.assigned} >= {"orders"}
        closing = threading.Thread(target=consumer.close)
        closing.start()
        consumer.closed()
        closing.join()


def test_a_pull_consumer_is_told_what_to_read_and_where(producer: Producer, options: Options) -> None:
    queue = producer.send(Message("orders", b"0")).queue
    for number in range(1, 5):
        producer.send(Message("orders", b"%d" % number), queue=queue)
    with PullConsumer("group", options=options) as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 2)
        polled: list[Received] = []
        while len(polled) < 3:
            polled += consumer.poll(10)
        consumer.commit()

        assert [message.body for message in polled] == [b"2", b"3", b"4"]
        assert consumer.committed(queue) == 5
        assert consumer.poll(timeout_seconds=0) == []
    with pytest.raises(StopIteration):
        next(consumer)


def test_messages_are_received_and_kept_and_acknowledged(producer: Producer, options: Options) -> None:
    producer.send(Message("orders", b"one"))
    with SimpleConsumer("group", topics="orders", options=options, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        (message,) = consumer.receive()
        with consumer.renewing(message) as renewed:
            assert renewed is message
        with pytest.raises(ValueError, match="mine"), consumer.renewing(message):
            raise ValueError("mine")
        consumer.ack(message)

        assert consumer.receive(wait_seconds=0) == []


def test_a_request_is_answered_by_a_handler(producer: Producer, options: Options) -> None:
    def answer(messages: list[Received]) -> None:
        for message in messages:
            producer.reply(message, message.body.upper())

    with PushConsumer("answering", answer, topics="questions", options=options, consume_from=ConsumeFrom.FIRST_OFFSET):
        reply = producer.request(Message("questions", b"what"), timeout_seconds=60)

    assert reply.body == b"WHAT"


# Transactions


def test_a_transaction_is_executed_by_the_thread_that_asked_for_it(options: Options) -> None:
    """A database connection is its thread's own, and sqlite3 insists on it."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (body TEXT)")

    def execute(message: Message) -> Decision:
        database.execute("INSERT INTO orders VALUES (?)", [message.body])
        return Decision.COMMIT

    with TransactionProducer("payers", lambda message: Decision.UNKNOWN, options=options) as producer:
        result = producer.send_in_transaction(Message("orders", b"paid"), execute)

    assert (result.decision, result.error) == (Decision.COMMIT, None)
    assert read(options, "orders", 1) == [b"paid"]
    assert database.execute("SELECT body FROM orders").fetchall() == [(b"paid",)]


def test_a_transaction_that_fails_is_undecided_and_one_that_cannot_be_sent_is_not_executed(options: Options) -> None:
    def fail(message: Message) -> Decision:
        raise ValueError("no")

    async def decide(message: Message) -> Decision:
        return Decision.ROLLBACK

    with TransactionProducer("payers", lambda message: Decision.UNKNOWN, options=options) as producer:
        result = producer.send_in_transaction(Message("orders", b"failed"), fail)
        assert (result.decision, type(result.error)) == (Decision.UNKNOWN, ValueError)
        assert producer.send_in_transaction(Message("orders", b"x"), decide).decision is Decision.ROLLBACK
        with pytest.raises(aio.MessageIllegal):
            producer.send_in_transaction(Message("orders", b"later", delay_level=3), fail)


def test_an_interrupt_of_a_transaction_gets_through(options: Options) -> None:
    def interrupt(message: Message) -> Decision:
        raise KeyboardInterrupt

    with TransactionProducer("payers", lambda message: Decision.UNKNOWN, options=options) as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send_in_transaction(Message("orders", b"interrupted"), interrupt)
        assert producer.send(Message("orders", b"next")).queue.topic == "orders"


def test_what_is_sent_and_consumed_is_traced(options: Options) -> None:
    consumed = threading.Event()
    with Tracing(options=options) as tracing, Producer("senders", options=options, hooks=[tracing]) as producer:
        sent = producer.send(Message("orders", b"traced"))
        with PushConsumer(
            "traced",
            lambda messages: consumed.set(),
            topics="orders",
            options=options,
            hooks=[tracing],
            consume_from=ConsumeFrom.FIRST_OFFSET,
        ):
            assert consumed.wait(30)

    traces = b""
    with PullConsumer(
        "readers", topics="RMQ_SYS_TRACE_TOPIC", options=options, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        # One message or several have them.
        while b"SubAfter\x01" not in traces:
            traces += next(consumer).body
    assert [traces.count(kind) for kind in (b"Pub\x01", b"SubBefore\x01", b"SubAfter\x01")] == [1, 1, 1]
    assert sent.message_id.encode() in traces


# Where it is used


async def test_inside_of_a_running_loop_it_works(options: Options) -> None:
    with Producer("senders", options=options) as producer:
        producer.send(Message("orders", b"from a notebook"))
    async with aio.Producer("senders", options=options) as other:
        await other.send(Message("orders", b"from the loop"))

    assert asyncio.get_running_loop().is_running()
    assert sorted(read(options, "orders", 2)) == [b"from a notebook", b"from the loop"]


def test_a_call_on_the_loop_itself_is_an_error_and_no_deadlock(producer: Producer, options: Options) -> None:
    errors: list[Exception] = []

    class Hook:
        def before_send(self, sending: Sending) -> None:
            try:
                producer.send(Message("orders", b"from a hook"))
            except WrongState as error:
                errors.append(error)

        def after_send(self, sending: Sending) -> None: ...

    with Producer("hooked", options=options, hooks=[Hook()]) as hooked:
        hooked.send(Message("orders", b"one"))

    assert "on the event loop that would have to answer it" in str(errors[0])


def test_a_fork_makes_its_own_clients_and_is_told_so(producer: Producer, options: Options) -> None:
    producer.send(Message("orders", b"before"))
    consumer = PullConsumer("group", topics="orders", options=options)

    def child() -> list[str]:
        said = []
        for use in (lambda: producer.send(Message("orders", b"lost")), consumer.start, lambda: next(consumer)):
            try:
                use()
            except WrongState as error:
                said.append(str(error))
        with Producer("senders", options=options) as own:
            own.send(Message("orders", b"of the child"))
        return said

    said = in_fork(child)

    assert len(said) == 3
    assert said[0].startswith(f"this Producer was made before a fork, in process {os.getpid()}, and works there")
    assert said[0].endswith("make another in this process")
    producer.send(Message("orders", b"after"))
    assert sorted(read(options, "orders", 3)) == [b"after", b"before", b"of the child"]


def test_a_client_is_not_pickled(producer: Producer) -> None:
    """Which is how it would come to a Spark executor."""
    with pytest.raises(TypeError, match="cannot be pickled: make it where it is used"):
        pickle.dumps(producer)


def test_used_in_the_wrong_order_it_says_so(options: Options) -> None:
    producer = Producer("senders", options=options)
    with pytest.raises(WrongState, match="has not been started; use it inside"):
        producer.send(Message("orders", b""))
    producer.start()
    producer.close()
    producer.close()
    with pytest.raises(WrongState, match="has been closed"):
        producer.send(Message("orders", b""))


# Interrupted


def test_an_interrupt_ends_the_wait_for_a_message_and_none_is_lost(producer: Producer, options: Options) -> None:
    queue = producer.send(Message("orders", b"0")).queue
    with PullConsumer("group", options=options) as consumer:
        consumer.assign([queue])
        consumer.seek_to_begin(queue)
        assert next(consumer).body == b"0"
        interrupted()
        with pytest.raises(KeyboardInterrupt):
            next(consumer)
        producer.send(Message("orders", b"1"), queue=queue)

        assert next(consumer).body == b"1"


def test_an_interrupt_leaves_the_with_and_closes_the_consumer(options: Options) -> None:
    consumer = PushConsumer("group", print, topics="orders", options=options)

    def consume_until_interrupted() -> None:
        with consumer:
            interrupted()
            consumer.closed()

    with pytest.raises(KeyboardInterrupt):
        consume_until_interrupted()

    consumer.closed()


def test_a_program_that_closes_nothing_ends_all_the_same(kerolox_cluster: RunningCluster) -> None:
    script = f"""
from kerolox.client.sync import *
options = Options(namesrv_addr={kerolox_cluster.namesrv_addr!r})
producer = Producer("senders", options=options)
producer.start()
print(producer.send(Message("orders", b"...")).status.name)
consumer = PushConsumer("group", lambda messages: None, topics="orders", options=options)
consumer.start()
"""

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "OK\n", "")


def test_threads_that_outlive_the_main_thread_go_on_sending(kerolox_cluster: RunningCluster) -> None:
    """Bodies of this size are compressed in a thread, and by then Python's own pools take nothing more."""
    script = f"""
import concurrent.futures.thread, os, threading
from kerolox.client.sync import Message, Producer

def send():
    while not concurrent.futures.thread._shutdown:
        os.sched_yield()
    with Producer("senders", namesrv_addr={kerolox_cluster.namesrv_addr!r}) as producer:
        print(producer.send(Message("orders", bytes(10_000))).status.name)

threading.Thread(target=send).start()
"""

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "OK\n", "")


def test_a_child_that_throws_its_parents_clients_away_does_the_parent_no_harm(kerolox_cluster: RunningCluster) -> None:
    """Both share the sockets, and the epoll that watches them."""
    script = f"""
import gc, os, sys
from kerolox.client.sync import *

options = Options(namesrv_addr={kerolox_cluster.namesrv_addr!r})
producer = Producer("senders", options=options)
producer.start()
producer.send(Message("orders", b"before"))
consumer = PushConsumer("group", lambda messages: None, topics="orders", options=options)
consumer.start()
child = os.fork()
if child == 0:
    del producer, consumer
    gc.collect()
    sys.exit()
print(os.waitpid(child, 0)[1])
print(producer.send(Message("orders", b"after")).status.name)
consumer.close()
producer.close()
"""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", script]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\nOK\n", "")
