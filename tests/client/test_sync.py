"""The blocking clients."""

import asyncio
import contextlib
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
from kerolox.client.consumer.fetch import queue_reader
from kerolox.client.session.members import ConsumerMember, ProducerMember
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
from tests.client.blocking.test_loop_thread import start_interrupting
from tests.client.forks import in_fork
from tests.client.surfaces import differences

CLIENTS = ["Producer", "TransactionProducer", "PushConsumer", "PullConsumer", "SimpleConsumer"]
# Public names that sessions and readers use, and users do not.
NOT_FOR_USERS = {
    *dir(ProducerMember),
    *dir(ConsumerMember),
    *dir(queue_reader.Consumer),
    *queue_reader.Consumer.__annotations__,
    "is_orderly",
    "concurrency",
    *("take_batch", "commit_batch", "return_batch", "rewind"),
    "member_settings",
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


# The public interface


def test_both_modules_export_the_same_names() -> None:
    assert sync.__all__ == aio.__all__
    assert [name for name in aio.__all__ if getattr(sync, name) is not getattr(aio, name)] == sorted(
        [*CLIENTS, "Tracing"]
    )


@pytest.mark.parametrize("name", [*CLIENTS, "Tracing"])
def test_blocking_clients_have_the_same_methods_and_signatures(name: str) -> None:
    assert differences(getattr(sync, name), getattr(aio, name), NOT_FOR_USERS) == []


@pytest.mark.parametrize("name", CLIENTS)
def test_blocking_clients_have_the_same_attributes(name: str) -> None:
    keywords: dict[str, Any] = {"namesrv_addr": "127.0.0.1:9876"}
    if "Consumer" in name:
        keywords["topics"] = "orders"
    arguments = ["group", print] if name in ("TransactionProducer", "PushConsumer") else ["group"]
    asynchronous = getattr(aio, name)(*arguments, **keywords)
    blocking = getattr(sync, name)(*arguments, **keywords)

    names = {attribute for attribute in vars(asynchronous) if not attribute.startswith("_")} - NOT_FOR_USERS

    assert [attribute for attribute in names if not hasattr(blocking, attribute)] == []
    assert {"group", "options"} <= names


def test_docstrings_say_with_instead_of_async_with() -> None:
    for name in CLIENTS:
        kind = getattr(sync, name)
        texts = [kind.__doc__, *(inspect.getdoc(getattr(kind, method)) for method in dir(kind) if method[0] != "_")]
        assert [text for text in texts if "async" in (text or "") or "await" in (text or "")] == [], name
    assert str(inspect.signature(SimpleConsumer.renewing)).endswith("collections.abc.Iterator[" + str(_received()))


def _received() -> str:
    return f"{Received.__module__}.{Received.__qualname__}]"


# Sending and receiving


def test_many_threads_send_concurrently(producer: Producer, options: Options) -> None:
    def send(number: int) -> str:
        return producer.send(Message("orders", b"%d" % number)).message_id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(send, range(100)))

    assert len(set(ids)) == 100
    assert sorted(map(int, read(options, "orders", 100))) == list(range(100))


def test_a_handler_runs_in_threads_and_may_send(producer: Producer, options: Options) -> None:
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


def test_a_suspended_consumer_continues_after_resume(producer: Producer, options: Options) -> None:
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


def test_a_pull_consumer_assigns_and_seeks(producer: Producer, options: Options) -> None:
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


def test_a_simple_consumer_receives_renews_and_acknowledges(producer: Producer, options: Options) -> None:
    producer.send(Message("orders", b"one"))
    with SimpleConsumer("group", topics="orders", options=options, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        (message,) = consumer.receive()
        with consumer.renewing(message) as renewed:
            assert renewed is message
        with pytest.raises(ValueError, match="mine"), consumer.renewing(message):
            raise ValueError("mine")
        consumer.ack(message)

        assert consumer.receive(wait_seconds=0) == []


def test_a_handler_replies_to_a_request(producer: Producer, options: Options) -> None:
    def answer(messages: list[Received]) -> None:
        for message in messages:
            producer.reply(message, message.body.upper())

    with PushConsumer("answering", answer, topics="questions", options=options, consume_from=ConsumeFrom.FIRST_OFFSET):
        reply = producer.request(Message("questions", b"what"), timeout_seconds=60)

    assert reply.body == b"WHAT"


# Transactions


def test_a_transaction_is_executed_in_the_calling_thread(options: Options) -> None:
    """A sqlite3 connection can be used only in the thread that created it."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE orders (body TEXT)")

        def execute(message: Message) -> Decision:
            database.execute("INSERT INTO orders VALUES (?)", [message.body])
            return Decision.COMMIT

        with TransactionProducer("payers", lambda message: Decision.UNKNOWN, options=options) as producer:
            result = producer.send_in_transaction(Message("orders", b"paid"), execute)

        assert (result.decision, result.error) == (Decision.COMMIT, None)
        assert read(options, "orders", 1) == [b"paid"]
        assert database.execute("SELECT body FROM orders").fetchall() == [(b"paid",)]


def test_a_failed_transaction_is_unknown_and_an_unsent_one_is_not_executed(options: Options) -> None:
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


def test_an_interrupt_leaves_a_transaction(options: Options) -> None:
    def interrupt(message: Message) -> Decision:
        raise KeyboardInterrupt

    with TransactionProducer("payers", lambda message: Decision.UNKNOWN, options=options) as producer:
        with pytest.raises(KeyboardInterrupt):
            producer.send_in_transaction(Message("orders", b"interrupted"), interrupt)
        assert producer.send(Message("orders", b"next")).queue.topic == "orders"


def test_sends_and_consumed_messages_are_traced(options: Options) -> None:
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
        # The traces are in one message or several.
        while b"SubAfter\x01" not in traces:
            traces += next(consumer).body
    assert [traces.count(kind) for kind in (b"Pub\x01", b"SubBefore\x01", b"SubAfter\x01")] == [1, 1, 1]
    assert sent.message_id.encode() in traces


# Threads, loops and forks


async def test_blocking_clients_work_inside_a_running_loop(options: Options) -> None:
    with Producer("senders", options=options) as producer:
        producer.send(Message("orders", b"from a notebook"))
    async with aio.Producer("senders", options=options) as other:
        await other.send(Message("orders", b"from the loop"))

    assert asyncio.get_running_loop().is_running()
    assert sorted(read(options, "orders", 2)) == [b"from a notebook", b"from the loop"]


def test_a_blocking_call_in_the_loop_thread_raises_instead_of_deadlocking(producer: Producer, options: Options) -> None:
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

    assert "which would deadlock" in str(errors[0])


def test_clients_from_before_a_fork_raise_and_new_ones_work(producer: Producer, options: Options) -> None:
    producer.send(Message("orders", b"before"))
    consumer = PullConsumer("group", topics="orders", options=options)

    def child() -> list[str]:
        errors = []
        for use in (lambda: producer.send(Message("orders", b"lost")), consumer.start, lambda: next(consumer)):
            try:
                use()
            except WrongState as error:
                errors.append(str(error))
        with Producer("senders", options=options) as own:
            own.send(Message("orders", b"of the child"))
        return errors

    errors = in_fork(child)

    assert len(errors) == 3
    assert errors[0].startswith(f"this Producer was created before a fork, in process {os.getpid()}, and works only")
    assert errors[0].endswith("create another one in this process")
    producer.send(Message("orders", b"after"))
    assert sorted(read(options, "orders", 3)) == [b"after", b"before", b"of the child"]


def test_a_client_cannot_be_pickled(producer: Producer) -> None:
    """Spark would pickle it to send it to an executor."""
    with pytest.raises(TypeError, match="cannot be pickled: create it where it is used"):
        pickle.dumps(producer)


def test_use_in_the_wrong_order_is_refused(options: Options) -> None:
    producer = Producer("senders", options=options)
    with pytest.raises(WrongState, match="has not been started; use it inside"):
        producer.send(Message("orders", b""))
    producer.start()
    producer.close()
    producer.close()
    with pytest.raises(WrongState, match="has been closed"):
        producer.send(Message("orders", b""))


# Interrupts and exits


def test_an_interrupt_while_waiting_loses_no_message(producer: Producer, options: Options) -> None:
    queue = producer.send(Message("orders", b"0")).queue
    with PullConsumer("group", options=options) as consumer:
        consumer.assign([queue])
        consumer.seek_to_begin(queue)
        assert next(consumer).body == b"0"
        start_interrupting()
        with pytest.raises(KeyboardInterrupt):
            next(consumer)
        producer.send(Message("orders", b"1"), queue=queue)

        assert next(consumer).body == b"1"


def test_an_interrupt_closes_the_consumer(options: Options) -> None:
    consumer = PushConsumer("group", print, topics="orders", options=options)

    def consume_until_interrupted() -> None:
        with consumer:
            start_interrupting()
            consumer.closed()

    with pytest.raises(KeyboardInterrupt):
        consume_until_interrupted()

    consumer.closed()


def test_a_program_that_closes_nothing_exits(kerolox_cluster: RunningCluster) -> None:
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


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 12, 3),
    reason="before 3.12.3, Python 3.12 starts no thread after the end of the main thread (gh-113964)",
)
def test_threads_that_outlive_the_main_thread_can_send(kerolox_cluster: RunningCluster) -> None:
    """Body of this size are compressed in a thread, when Python's own thread pools accept no more work."""
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


def test_a_child_that_drops_the_clients_of_its_parent_does_not_break_them(kerolox_cluster: RunningCluster) -> None:
    """Both processes share the sockets and the epoll instance."""
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
