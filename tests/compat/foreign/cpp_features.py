"""cpp_features.py NAMESRV PREFIX FEATURE...: runs features of the C++ client, like Features.java for Java's client.

Prints a line of three tab-separated fields for each feature: its name; ok, failed or absent; and the observed result.
The line "please reset TOPIC GROUP" asks the test to reset offsets. "NAMESRV member TOPIC GROUP" consumes until killed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, overload

import rocketmq.client as client  # type: ignore[import-not-found]
from rocketmq.ffi import dll  # type: ignore[import-not-found]

T = TypeVar("T")

COUNT = 16
TIMEOUT_SECONDS = 60.0


def main() -> None:
    if sys.argv[2] == "member":
        consumer = consume(sys.argv[3], lambda message: print(message.body.decode(), flush=True), sys.argv[4], "third")
        threading.Event().wait()
        consumer.shutdown()
    with ThreadPoolExecutor(8) as threads:
        for feature in sys.argv[3:]:
            threads.submit(run_feature, feature)
    print("ended", flush=True)
    # Threads of the library may crash during a normal exit.
    os._exit(0)


def run_feature(feature: str) -> None:
    topic = f"{sys.argv[2]}_{re.sub('[^A-Za-z0-9]+', '_', feature)}"
    try:
        if feature in ABSENT:
            state, detail = "absent", check_absent(ABSENT[feature])
        else:
            state, detail = "ok", FEATURES[feature](topic)
    except Exception as error:
        state, detail = "failed", f"{type(error).__name__}: {error}".replace("\n", " ")
    print_fields(feature, state, detail)


def print_fields(*words: str) -> None:
    # One write, because other threads print, too.
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


# Features without support in this client, and the library function that they would need.
ABSENT = {
    "transaction committed": "CreateTransactionProducer",
    "transaction rolled back": "CreateTransactionProducer",
    "transaction unknown, then checked": "CreateTransactionProducer",
    "request-reply": "RequestMessage",
    "lite pull": "CreateLitePullConsumer",
    "by SQL92": "SubscribeSql",
}


def check_absent(name: str) -> str:
    if hasattr(dll, name) or hasattr(client, name):
        raise AssertionError(f"the client has {name}")
    return f"no {name}"


def send_sync(topic: str) -> str:
    received, _ = start_consumer(topic)
    for number in range(COUNT):
        assert send_when_routed(shared_producer().send_sync, new_message(topic, number)).status == client.SendStatus.OK
    expect_messages(received, COUNT)
    # The client does not tell the broker of a message: an offset that occurs twice in a queue means two brokers.
    assert len(received.queues) > len(set(zip(received.queues, received.offsets, strict=True))), "all on one broker"
    return f"{COUNT} over 2 brokers"


def send_async(topic: str) -> str:
    received, _ = start_consumer(topic)
    answers: list[object] = []
    messages = [new_message(topic, number) for number in range(COUNT)]
    for message in messages:
        send_when_routed(shared_producer().send_async, message, answers.append, answers.append)
    wait_for("answers", lambda: len(answers) == COUNT)
    assert all(getattr(answer, "status", None) == client.SendStatus.OK for answer in answers), answers
    expect_messages(received, COUNT)
    return f"{COUNT} answered and consumed"


def send_oneway(topic: str) -> str:
    received, _ = start_consumer(topic)
    for number in range(COUNT):
        send_when_routed(shared_producer().send_oneway, new_message(topic, number))
    expect_messages(received, COUNT)
    return f"{COUNT} consumed"


def send_batch(topic: str) -> str:
    received, _ = start_consumer(topic)
    messages = [new_message(topic, number) for number in range(COUNT)]
    assert send_when_routed(shared_producer().send_batch, messages).status == client.SendStatus.OK
    expect_messages(received, COUNT)
    assert len(set(received.queues)) == 1, received.queues
    return f"a batch of {COUNT} in one queue"


def send_ordered(topic: str) -> str:
    for step in range(10):
        for order in range(3):
            send_when_routed(shared_producer().send_orderly, new_message(topic, f"{order}:{step}"), order)
    received, _ = start_consumer(topic, orderly=True)
    wait_for("30 steps", lambda: len(received.bodies) >= 30)
    for order in range(3):
        steps = [body.split(":")[1] for body in received.bodies if body.startswith(f"{order}:")]
        assert steps == list("0123456789"), received.bodies
    return "three orders of ten steps, each in order"


def send_delayed(topic: str) -> str:
    received, _ = start_consumer(topic)
    for number in range(4):
        message = new_message(topic, number)
        message.set_delay_time_level(2)
        send_when_routed(shared_producer().send_sync, message)
    expect_messages(received, 4)
    assert 1900 <= min(received.waits) < 10000, received.waits
    return "4 after two seconds"


def send_keyed(topic: str) -> str:
    received, _ = start_consumer(topic)
    message = new_message(topic, 3)
    message.set_keys("first3")
    send_when_routed(shared_producer().send_sync, message)
    wait_for("keyed", lambda: received.keys == ["first3"])
    return "found by key"


def send_compressed(topic: str) -> str:
    received, _ = start_consumer(topic)
    text = "0123456789" * 10000
    send_when_routed(shared_producer().send_sync, new_message(topic, text))
    wait_for("compressed", lambda: len(received.bodies) == 1)
    assert received.bodies == [text]
    assert received.sizes[0] < 10000, received.sizes
    return f"100,000 bytes stored as {received.sizes[0]}"


def push_concurrently(topic: str) -> str:
    received, consumer = start_consumer(topic)
    for number in range(COUNT):
        send_when_routed(shared_producer().send_sync, new_message(topic, number))
    expect_messages(received, COUNT)
    consumer.shutdown()
    send_when_routed(shared_producer().send_sync, new_message(topic, COUNT))
    later, _ = start_consumer(topic, instance="again")
    wait_for("the last", lambda: bool(later.bodies))
    assert later.bodies == [f"message {COUNT}"], later.bodies
    return f"{COUNT}, and after a pause where it left off"


def push_orderly(topic: str) -> str:
    received, _ = start_consumer(topic, orderly=True)
    for number in range(40):
        send_when_routed(shared_producer().send_sync, new_message(topic, number))
    wait_for("40 in order", lambda: len(received.bodies) >= 40)
    # The client does not tell the broker of a message: there are two queues with each id.
    expected: dict[int, list[int]] = {}
    for queue, offset in zip(received.queues, received.offsets, strict=True):
        nexts = expected.setdefault(queue, [0, 0])
        assert offset in nexts, (received.queues, received.offsets)
        nexts[nexts.index(offset)] += 1
    return "40 in 8 queues, each in order"


def pull(topic: str) -> str:
    for number in range(COUNT):
        send_when_routed(shared_producer().send_sync, new_message(topic, number))
    consumer = client.PullConsumer(f"{topic}_group")
    consumer.set_namesrv_addr(sys.argv[1])
    consumer.start()
    # Its offset table ignores the broker name, so the queues of the second broker would be read from a wrong offset.
    consumer.get_message_queue_offset = lambda queue: 0
    bodies = {message.body.decode() for message in consumer.pull(topic)}
    assert len(bodies) == COUNT, bodies
    return f"{COUNT} from 8 queues"


def broadcast(topic: str) -> str:
    model = client.MessageModel.BROADCASTING
    both = [start_consumer(topic, instance=f"broadcast{member}", model=model)[0] for member in range(2)]
    for number in range(COUNT):
        send_when_routed(shared_producer().send_sync, new_message(topic, number))
    for received in both:
        expect_messages(received, COUNT)
    return f"{COUNT} to each of two"


def by_tags(topic: str) -> str:
    received, _ = start_consumer(topic, expression="TagA || TagC")
    for number in range(24):
        message = new_message(topic, number)
        message.set_tags("Tag" + "ABCD"[number % 4])
        send_when_routed(shared_producer().send_sync, message)
    wait_for("12 chosen by tag", lambda: len(received.bodies) >= 12)
    assert set(received.bodies) == {f"message {number}" for number in range(0, 24, 2)}, received.bodies
    return "12 of 24"


def retry_to_dead_letters(topic: str) -> str:
    """The test limits the group to two retries at the broker, because this client has no setting for it."""
    times: list[int] = []

    def refuse(_: object, handle: object) -> int:
        times.append(client.RecvMessage(handle).reconsume_times)
        return 1

    consumer = new_consumer(f"{topic}_group", "refusing")
    assert dll.Subscribe(consumer._handle, topic.encode(), b"*") == 0
    consumer._register_callback(refuse)
    consumer.start()
    send_when_routed(shared_producer().send_sync, new_message(topic, 0))
    wait_for("tried three times", lambda: len(times) >= 3)
    dead, _ = start_consumer(f"%DLQ%{topic}_group", group=f"{topic}_dlq_reader", instance="dlq_reader")
    wait_for("dead letter", lambda: dead.bodies == ["message 0"])
    assert times == [0, 1, 2], times
    return "tried 3 times, then a dead letter"


def offset_reset(topic: str) -> str:
    received, _ = start_consumer(topic)
    for number in range(COUNT):
        send_when_routed(shared_producer().send_sync, new_message(topic, number))
    expect_messages(received, COUNT)
    print_fields("please", "reset", f"{topic} {topic}_group")
    wait_for("taken twice", lambda: len(received.bodies) >= 2 * COUNT)
    assert len(set(received.bodies)) == COUNT
    return f"{COUNT} taken twice"


def rebalancing(topic: str) -> str:
    """A third consumer joins two and is killed: messages go to all running consumers, and none is lost."""
    both = [start_consumer(topic, instance=f"member{member}")[0] for member in range(2)]
    sent = 0
    printed = f"{topic}.txt"

    def is_shared(expected: set[int], consumed: Sequence[Sequence[str]]) -> bool:
        """Send messages and wait until all are consumed; return whether exactly these consumers got some."""
        nonlocal sent
        before = [len(bodies) for bodies in consumed]
        for _ in range(2 * COUNT):
            send_when_routed(shared_producer().send_sync, new_message(topic, sent))
            sent += 1
        wait_for("all consumed", lambda: len({body for bodies in consumed for body in bodies}) == sent)
        return {at for at, bodies in enumerate(consumed) if len(bodies) > before[at]} == expected

    consumed = [received.bodies for received in both]
    wait_for("queues shared by two", lambda: is_shared({0, 1}, consumed))
    with Path(printed).open("wb") as output:
        command = [sys.executable, __file__, sys.argv[1], "member", topic, f"{topic}_group"]
        third = subprocess.Popen(command, stdout=output)
    lines = PrintedMessages(printed)
    wait_for("queues shared by three", lambda: is_shared({0, 1, 2}, [*consumed, lines]) or len(lines) > 4)
    third.kill()
    third.wait()
    wait_for("queues shared by two again", lambda: is_shared({0, 1}, [*consumed, lines]))
    return f"two, three, two consumers; the third took {len(lines)}, none of {sent} lost"


class PrintedMessages(Sequence[str]):
    """The messages that another process has printed to a file; the file is read at each access."""

    def __init__(self, path: str) -> None:
        self._path = path

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._read()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> list[str]:
        with Path(self._path).open() as file:
            return [line.strip() for line in file if line.startswith("message ")]


FEATURES: dict[str, Callable[[str], str]] = {
    "send sync": send_sync,
    "send async": send_async,
    "send oneway": send_oneway,
    "send batch": send_batch,
    "send ordered": send_ordered,
    "send delayed": send_delayed,
    "send keyed": send_keyed,
    "send compressed": send_compressed,
    "push concurrently": push_concurrently,
    "push orderly": push_orderly,
    "pull": pull,
    "broadcast": broadcast,
    "by tags": by_tags,
    "retry to DLQ": retry_to_dead_letters,
    "offset reset": offset_reset,
    "rebalancing": rebalancing,
}


class Received:
    """Data of the received messages. A message is valid only during the callback, so its parts are copied."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.keys: list[str] = []
        self.queues: list[int] = []
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.waits: list[int] = []

    def __call__(self, message: client.RecvMessage) -> None:
        self.keys.append(text(message.keys))
        self.queues.append(message.queue_id)
        self.offsets.append(message.queue_offset)
        self.sizes.append(message.store_size)
        self.waits.append(message.store_timestamp - message.born_timestamp)
        self.bodies.append(text(message.body))


def text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def start_consumer(
    topic: str,
    *,
    group: str | None = None,
    instance: str | None = None,
    orderly: bool = False,
    expression: str = "*",
    model: object = None,
) -> tuple[Received, client.PushConsumer]:
    """Start a consumer, by default of the topic's own group; return its messages and the consumer."""
    received = Received()
    consumer = consume(
        topic,
        received,
        group or f"{topic}_group",
        instance or topic,
        orderly=orderly,
        expression=expression,
        model=model,
    )
    return received, consumer


def consume(
    topic: str,
    callback: Callable[[client.RecvMessage], object],
    group: str,
    instance: str,
    *,
    orderly: bool = False,
    expression: str = "*",
    model: object = None,
) -> client.PushConsumer:
    consumer = new_consumer(group, instance, orderly=orderly, model=model)
    consumer.subscribe(topic, callback, expression)
    consumer.start()
    return consumer


# Keeps consumers and their callbacks alive.
CONSUMERS: list[client.PushConsumer] = []


def new_consumer(group: str, instance: str, *, orderly: bool = False, model: object = None) -> client.PushConsumer:
    model = client.MessageModel.CLUSTERING if model is None else model
    consumer = client.PushConsumer(group, orderly=orderly, message_model=model)
    consumer.set_namesrv_addr(sys.argv[1])
    consumer.set_instance_name(instance)
    consumer.set_thread_count(1)
    CONSUMERS.append(consumer)
    return consumer


LOCK = threading.Lock()
PRODUCERS: list[client.Producer] = []


def send_when_routed(send: Callable[..., T], *arguments: object) -> T:
    """Send once the topic has a route.

    All threads share one producer. If one thread queries a route, a send of another thread may fail with "No route
    info", even a synchronous one, which queries the route more than once.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return send(*arguments)
        except Exception as error:
            if "No route info" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def shared_producer() -> client.Producer:
    with LOCK:
        if not PRODUCERS:
            producer = client.Producer(f"{sys.argv[2]}_producers", timeout=10000)
            producer.set_namesrv_addr(sys.argv[1])
            producer.start()
            PRODUCERS.append(producer)
        return PRODUCERS[0]


def new_message(topic: str, body: int | str) -> client.Message:
    message = client.Message(topic)
    message.set_body(f"message {body}" if isinstance(body, int) else body)
    return message


def expect_messages(received: Received, count: int) -> None:
    wait_for(f"{count} consumed", lambda: len(received.bodies) >= count)
    assert sorted(received.bodies) == sorted(f"message {number}" for number in range(count)), received.bodies


def wait_for(description: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_SECONDS} s: {description}"
        time.sleep(0.05)


main()
