"""Requests of producers and consumers as encoded frames."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bench.compiled import KEY_COUNTER
from bench.connections import ask, connect
from bench.frames import OPAQUE_FIRST, Ring, decode, encode, ring

QUEUES = 8
BATCH_SIZE = 32
PULL_SIZE = 32
GROUP = "bench_consumer"
_BORN = "1700000000000"
_KEY_HEAD = "7F00000151F1DABDB9114D35"
_TAGS = "ABCDE"
_SUSPEND, _SUBSCRIPTION = 2, 4
_PART = struct.Struct(">IIIII")


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer group, and the tags that it reads."""

    group: str = GROUP
    expression: str = "*"


_TO_ALL = Subscription()


def send(topic: str, queue_id: int, body: bytes, opaque: int = OPAQUE_FIRST) -> bytes:
    """SEND_MESSAGE_V2 as Java's clients send it; the generator replaces the unique key in each copy."""
    return encode(310, sending(topic, queue_id, _unique_key(KEY_COUNTER.decode())), body, opaque=opaque)


def sends(topic: str, body_size: int, count: int = 64) -> Ring:
    body = bytes(65 + number % 26 for number in range(body_size))
    return ring(count, lambda index, opaque: send(topic, index % QUEUES, body, opaque))


def keyed_sends(topic: str, body_size: int, count: int = 1024) -> Ring:
    """Send with a key of the application and a tag, both of one size, with the properties in Java's order."""

    def keyed(index: int, opaque: int) -> bytes:
        properties = (
            f"KEYS\x01order-{index:010}\x02{_unique_key(KEY_COUNTER.decode())}TAGS\x01Tag{_TAGS[index % 5]}\x02"
        )
        return encode(310, sending(topic, index % QUEUES, properties), bytes(body_size), opaque=opaque)

    return ring(count, keyed)


def batches(topic: str, body_size: int, count: int = 64) -> Ring:
    """SEND_BATCH_MESSAGE of 32 messages each."""

    def batch(index: int, opaque: int) -> bytes:
        numbers = range(index * BATCH_SIZE, (index + 1) * BATCH_SIZE)
        body = b"".join(_part(bytes(body_size), _unique_key(f"{number:08X}").encode()) for number in numbers)
        fields = {**sending(topic, index % QUEUES, "WAIT\x01true\x02"), "m": "true"}
        return encode(320, fields, body, opaque=opaque)

    return ring(count, batch)


def pulls(topic: str, count: int) -> Ring:
    """PULL_MESSAGE of 32 messages, at `count` offsets of each queue."""
    return ring(
        count * QUEUES,
        lambda index, opaque: encode(11, pulling(topic, index % QUEUES, index // QUEUES * PULL_SIZE), opaque=opaque),
    )


def long_poll(topic: str, queue_id: int, queue_offset: int, opaque: int) -> bytes:
    """PULL_MESSAGE at the end of a queue, which waits for ten minutes."""
    fields = {**pulling(topic, queue_id, queue_offset), "sysFlag": str(_SUBSCRIPTION | _SUSPEND)}
    return encode(11, fields, opaque=opaque)


def max_offset(topic: str, queue_id: int, opaque: int = OPAQUE_FIRST) -> bytes:
    return encode(30, {"topic": topic, "queueId": str(queue_id)}, opaque=opaque)


def make_topic(port: int, topic: str) -> None:
    """Send one message to each queue, which creates the topic."""
    fill(port, topic, 1, 128)


def fill(port: int, topic: str, count: int, body_size: int) -> None:
    """Send `count` messages to each queue of a topic."""
    with connect(port) as connection:
        for queue_id in range(QUEUES):
            for _ in range(count):
                answer = decode(ask(connection, send(topic, queue_id, bytes(body_size))))
                if answer.code:
                    raise RuntimeError(f"a message was refused: {answer.header}")


def stored(port: int, *topics: str) -> int:
    """Return the number of messages of these topics, from the max offsets of their queues."""
    return sum(sum(offsets) for offsets in max_offsets(port, *topics).values())


def max_offsets(port: int, *topics: str) -> dict[str, list[int]]:
    """Return the max offset of each queue, by topic."""
    with connect(port) as connection:
        answers = {
            topic: [decode(ask(connection, max_offset(topic, queue_id))) for queue_id in range(QUEUES)]
            for topic in topics
        }
    return {topic: [int(each.header["extFields"]["offset"]) for each in found] for topic, found in answers.items()}


def sending(topic: str, queue_id: int, properties: str) -> dict[str, str]:
    return {
        "a": "bench_producer",
        "b": topic,
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(queue_id),
        "f": "0",
        "g": _BORN,
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }


def pulling(topic: str, queue_id: int, queue_offset: int, subscription: Subscription = _TO_ALL) -> dict[str, str]:
    """Return the fields of a PULL_MESSAGE that brings its subscription along and does not wait for messages."""
    return {
        "consumerGroup": subscription.group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "maxMsgNums": str(PULL_SIZE),
        "sysFlag": str(_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "600000",
        "subscription": subscription.expression,
        "subVersion": "0",
        "expressionType": "TAG",
    }


def _unique_key(counter: str) -> str:
    return f"UNIQ_KEY\x01{_KEY_HEAD}{counter}\x02WAIT\x01true\x02"


def _part(body: bytes, properties: bytes) -> bytes:
    size = _PART.size + len(body) + 2 + len(properties)
    return _PART.pack(size, 0, 0, 0, len(body)) + body + len(properties).to_bytes(2) + properties
