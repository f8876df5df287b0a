"""cpp_features.py NAMESRV PREFIX FEATURE...: tries what the C++ client can do, as Features.java does with Java's.

Prints for each feature a line "FEATURE, ok, failed or absent, what was seen", parted by tabs. What it cannot do for
itself it asks for in a line "please reset TOPIC GROUP". "NAMESRV member TOPIC GROUP" is a consumer until it is killed.
"""

import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rocketmq.client as client  # type: ignore[import-not-found]
from rocketmq.ffi import dll  # type: ignore[import-not-found]

COUNT = 16
SECONDS = 60.0


def main() -> None:
    if sys.argv[2] == "member":
        consumer = consume(sys.argv[3], lambda message: print(message.body.decode(), flush=True), sys.argv[4], "third")
        threading.Event().wait()
        consumer.shutdown()
    with ThreadPoolExecutor(8) as threads:
        for feature in sys.argv[3:]:
            threads.submit(attempt, feature)
    print("ended", flush=True)
    # Its threads have been seen to crash while they are taken down.
    os._exit(0)


def attempt(feature: str) -> None:
    topic = f"{sys.argv[2]}_{re.sub('[^A-Za-z0-9]+', '_', feature)}"
    try:
        if feature in ABSENT:
            state, detail = "absent", absence(ABSENT[feature])
        else:
            state, detail = "ok", FEATURES[feature](topic)
    except Exception as error:
        state, detail = "failed", f"{type(error).__name__}: {error}".replace("\n", " ")
    say(feature, state, detail)


def say(*words: str) -> None:
    # In one piece: other threads print as well.
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


# The library's functions without which there is no way to it.
ABSENT = {
    "transaction committed": "CreateTransactionProducer",
    "transaction rolled back": "CreateTransactionProducer",
    "transaction unknown, then checked": "CreateTransactionProducer",
    "request-reply": "RequestMessage",
    "lite pull": "CreateLitePullConsumer",
    "by SQL92": "SubscribeSql",
}


def absence(name: str) -> str:
    if hasattr(dll, name) or hasattr(client, name):
        raise AssertionError(f"there is {name}")
    return f"no {name}"


def send_sync(topic: str) -> str:
    seen, _ = watch(topic)
    for number in range(COUNT):
        assert routed(producer().send_sync, made(topic, number)).status == client.SendStatus.OK
    expect(seen, COUNT)
    # It does not say which broker took a message: more than one at offset 0 of a queue means more than one broker.
    assert len(seen.queues) > len(set(zip(seen.queues, seen.offsets, strict=True))), "all on one broker"
    return f"{COUNT} over 2 brokers"


def send_async(topic: str) -> str:
    seen, _ = watch(topic)
    answers: list[object] = []
    messages = [made(topic, number) for number in range(COUNT)]
    for message in messages:
        routed(producer().send_async, message, answers.append, answers.append)
    until("answers", lambda: len(answers) == COUNT)
    assert all(getattr(answer, "status", None) == client.SendStatus.OK for answer in answers), answers
    expect(seen, COUNT)
    return f"{COUNT} answered and consumed"


def send_oneway(topic: str) -> str:
    seen, _ = watch(topic)
    for number in range(COUNT):
        routed(producer().send_oneway, made(topic, number))
    expect(seen, COUNT)
    return f"{COUNT} consumed"


def send_batch(topic: str) -> str:
    seen, _ = watch(topic)
    messages = [made(topic, number) for number in range(COUNT)]
    assert routed(producer().send_batch, messages).status == client.SendStatus.OK
    expect(seen, COUNT)
    assert len(set(seen.queues)) == 1, seen.queues
    return f"a batch of {COUNT} in one queue"


def send_ordered(topic: str) -> str:
    for step in range(10):
        for order in range(3):
            routed(producer().send_orderly, made(topic, f"{order}:{step}"), order)
    seen, _ = watch(topic, orderly=True)
    until("30 steps", lambda: len(seen.bodies) >= 30)
    for order in range(3):
        steps = [body.split(":")[1] for body in seen.bodies if body.startswith(f"{order}:")]
        assert steps == list("0123456789"), seen.bodies
    return "three orders of ten steps, each in order"


def send_delayed(topic: str) -> str:
    seen, _ = watch(topic)
    for number in range(4):
        message = made(topic, number)
        message.set_delay_time_level(2)
        routed(producer().send_sync, message)
    expect(seen, 4)
    assert 1900 <= min(seen.waits) < 10000, seen.waits
    return "4 after two seconds"


def send_keyed(topic: str) -> str:
    seen, _ = watch(topic)
    message = made(topic, 3)
    message.set_keys("first3")
    routed(producer().send_sync, message)
    until("keyed", lambda: seen.keys == ["first3"])
    return "found by key"


def send_compressed(topic: str) -> str:
    seen, _ = watch(topic)
    text = "0123456789" * 10000
    routed(producer().send_sync, made(topic, text))
    until("compressed", lambda: len(seen.bodies) == 1)
    assert seen.bodies == [text]
    assert seen.sizes[0] < 10000, seen.sizes
    return f"100,000 bytes stored as {seen.sizes[0]}"


def push_concurrently(topic: str) -> str:
    seen, consumer = watch(topic)
    for number in range(COUNT):
        routed(producer().send_sync, made(topic, number))
    expect(seen, COUNT)
    consumer.shutdown()
    routed(producer().send_sync, made(topic, COUNT))
    later, _ = watch(topic, instance="again")
    until("the last", lambda: bool(later.bodies))
    assert later.bodies == [f"message {COUNT}"], later.bodies
    return f"{COUNT}, and after a pause where it left off"


def push_orderly(topic: str) -> str:
    seen, _ = watch(topic, orderly=True)
    for number in range(40):
        routed(producer().send_sync, made(topic, number))
    until("40 in order", lambda: len(seen.bodies) >= 40)
    # It does not say from which of the brokers a message is: there are two queues of every number.
    expected: dict[int, list[int]] = {}
    for queue, offset in zip(seen.queues, seen.offsets, strict=True):
        nexts = expected.setdefault(queue, [0, 0])
        assert offset in nexts, (seen.queues, seen.offsets)
        nexts[nexts.index(offset)] += 1
    return "40 in 8 queues, each in order"


def pull(topic: str) -> str:
    for number in range(COUNT):
        routed(producer().send_sync, made(topic, number))
    consumer = client.PullConsumer(f"{topic}_group")
    consumer.set_namesrv_addr(sys.argv[1])
    consumer.start()
    # Its table of offsets forgets the broker, so that the queues of the second are read from where the first's ended.
    consumer.get_message_queue_offset = lambda queue: 0
    bodies = {message.body.decode() for message in consumer.pull(topic)}
    assert len(bodies) == COUNT, bodies
    return f"{COUNT} from 8 queues"


def broadcast(topic: str) -> str:
    model = client.MessageModel.BROADCASTING
    both = [watch(topic, instance=f"broadcast{member}", model=model)[0] for member in range(2)]
    for number in range(COUNT):
        routed(producer().send_sync, made(topic, number))
    for seen in both:
        expect(seen, COUNT)
    return f"{COUNT} to each of two"


def by_tags(topic: str) -> str:
    seen, _ = watch(topic, expression="TagA || TagC")
    for number in range(24):
        message = made(topic, number)
        message.set_tags("Tag" + "ABCD"[number % 4])
        routed(producer().send_sync, message)
    until("12 chosen by tag", lambda: len(seen.bodies) >= 12)
    assert set(seen.bodies) == {f"message {number}" for number in range(0, 24, 2)}, seen.bodies
    return "12 of 24"


def retry_to_dead_letters(topic: str) -> str:
    """The group may try twice again, which was set at the broker: this client has no setting for it."""
    times: list[int] = []

    def refuse(_: object, handle: object) -> int:
        times.append(client.RecvMessage(handle).reconsume_times)
        return 1

    consumer = made_consumer(topic, f"{topic}_group", "refusing")
    assert dll.Subscribe(consumer._handle, topic.encode(), b"*") == 0
    consumer._register_callback(refuse)
    consumer.start()
    routed(producer().send_sync, made(topic, 0))
    until("tried three times", lambda: len(times) >= 3)
    dead, _ = watch(f"%DLQ%{topic}_group", group=f"{topic}_undertaker", instance="undertaker")
    until("dead letter", lambda: dead.bodies == ["message 0"])
    assert times == [0, 1, 2], times
    return "tried 3 times, then a dead letter"


def offset_reset(topic: str) -> str:
    seen, _ = watch(topic)
    for number in range(COUNT):
        routed(producer().send_sync, made(topic, number))
    expect(seen, COUNT)
    say("please", "reset", f"{topic} {topic}_group")
    until("taken twice", lambda: len(seen.bodies) >= 2 * COUNT)
    assert len(set(seen.bodies)) == COUNT
    return f"{COUNT} taken twice"


def rebalancing(topic: str) -> str:
    """Two consumers, to which a third comes that is killed: messages go to all who are there, and none is lost."""
    both = [watch(topic, instance=f"member{member}")[0] for member in range(2)]
    sent = 0
    printed = f"{topic}.txt"

    def share(wanted: "set[int]", taken: "list[list[str]]") -> bool:
        """Sends on until exactly these take messages, and all have been taken by somebody."""
        nonlocal sent
        before = [len(bodies) for bodies in taken]
        for _ in range(2 * COUNT):
            routed(producer().send_sync, made(topic, sent))
            sent += 1
        until("all taken", lambda: len({body for bodies in taken for body in bodies}) == sent)
        return {at for at, bodies in enumerate(taken) if len(bodies) > before[at]} == wanted

    taken = [seen.bodies for seen in both]
    until("a share for two", lambda: share({0, 1}, taken))
    with Path(printed).open("wb") as output:
        command = [sys.executable, __file__, sys.argv[1], "member", topic, f"{topic}_group"]
        third = subprocess.Popen(command, stdout=output)
    until("a share for three", lambda: share({0, 1, 2}, [*taken, lines(printed)]) or len(lines(printed)) > 4)
    third.kill()
    third.wait()
    got = lines(printed)
    until("a share for two again", lambda: share({0, 1}, [*taken, got]))
    return f"two, three, two consumers; the third took {len(got)}, none of {sent} lost"


class lines(list):  # type: ignore[type-arg]  # noqa: N801
    """The messages in a file, read again whenever they are looked at."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __iter__(self):  # type: ignore[no-untyped-def]
        with Path(self._path).open() as file:
            return iter([line.strip() for line in file if line.startswith("message ")])

    def __len__(self) -> int:
        return len(list(iter(self)))


FEATURES = {
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


class Seen:
    """What a consumer was given. The handle of a message ends with its callback, so its parts are kept."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.keys: list[str] = []
        self.queues: list[int] = []
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.waits: list[int] = []

    def __call__(self, message: "client.RecvMessage") -> None:
        self.keys.append(text(message.keys))
        self.queues.append(message.queue_id)
        self.offsets.append(message.queue_offset)
        self.sizes.append(message.store_size)
        self.waits.append(message.store_timestamp - message.born_timestamp)
        self.bodies.append(text(message.body))


def text(value: "bytes | str | None") -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def watch(topic: str, orderly: bool = False, expression: str = "*", **options: object) -> "tuple[Seen, object]":
    seen = Seen()
    group = str(options.pop("group", f"{topic}_group"))
    instance = str(options.pop("instance", topic))
    return seen, consume(topic, seen, group, instance, orderly=orderly, expression=expression, **options)


def consume(topic, callback, group, instance, orderly=False, expression="*", model=None):  # type: ignore[no-untyped-def]
    consumer = made_consumer(topic, group, instance, orderly, model)
    consumer.subscribe(topic, callback, expression)
    consumer.start()
    return consumer


KEPT: list[object] = []


def made_consumer(topic, group, instance, orderly=False, model=None):  # type: ignore[no-untyped-def]
    model = client.MessageModel.CLUSTERING if model is None else model
    consumer = client.PushConsumer(group, orderly=orderly, message_model=model)
    consumer.set_namesrv_addr(sys.argv[1])
    consumer.set_instance_name(instance)
    consumer.set_thread_count(1)
    KEPT.append(consumer)
    return consumer


LOCK = threading.Lock()
PRODUCERS: list[object] = []


def routed(send, *given):  # type: ignore[no-untyped-def]
    """Sends once the topic has a route.

    The threads here share one producer, and who looks for a route while another thread does may be told that there is
    none, also when it sends synchronously and so looks more than once.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return send(*given)
        except Exception as error:
            if "No route info" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def producer():  # type: ignore[no-untyped-def]
    with LOCK:
        if not PRODUCERS:
            made = client.Producer(f"{sys.argv[2]}_producers", timeout=10000)
            made.set_namesrv_addr(sys.argv[1])
            made.start()
            PRODUCERS.append(made)
        return PRODUCERS[0]


def made(topic, number):  # type: ignore[no-untyped-def]
    message = client.Message(topic)
    message.set_body(f"message {number}" if isinstance(number, int) else number)
    return message


def expect(seen: Seen, count: int) -> None:
    until(f"{count} consumed", lambda: len(seen.bodies) >= count)
    assert sorted(seen.bodies) == sorted(f"message {number}" for number in range(count)), seen.bodies


def until(what, is_true):  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.05)


main()
