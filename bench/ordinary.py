"""Ordinary traffic: messages of many producers to many topics, in random order, that have little in common.

Topics are of unequal popularity. Producer groups, client versions, body sizes, keys, tags, further properties and the
serialization of the header vary from message to message. Every seed gives other messages.
"""

from __future__ import annotations

import itertools
import json
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

from bench.compiled import KEY_COUNTER
from bench.connections import ask, connect
from bench.frames import OPAQUE_FIRST, Ring, decode, encode, encode_binary, ring_of
from bench.messages import QUEUES, sending

RING_SIZE = 4096
TOPICS = 32
GROUPS = 8
TAGS = 240
_VERSIONS = (395, 401, 433, 453, 479)
_BODY_SIZE_MEDIAN, _BODY_SIZE_SPREAD, _BODY_SIZES = 300, 0.9, (20, 8192)
# Shares of messages that have keys, a tag, further properties, and a binary header.
_KEYS, _TAG, _PROPERTIES, _BINARY = 0.8, 0.7, 0.3, 0.25
# Topic and queue id.
Queue = tuple[str, int]
_NAMES = ("traceId", "userId", "region", "source", "retries", "schemaVersion", "contentType", "shard")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Ordinary traffic over a number of topics and producer groups; every round of a comparison has another seed.

    The popularity of a topic falls with its place, as in Zipf's law. With `is_even`, all queues of all topics get the
    same number of messages instead.
    """

    topics: int = TOPICS
    groups: int = GROUPS
    tags: int = TAGS
    is_even: bool = False
    prefix: str = "ordinary"

    @property
    def topic_names(self) -> list[str]:
        kinds = ("payments-of-customers", "orders")
        return [f"{self.prefix}-{number}-{kinds[number % 2]}" for number in range(self.topics)]

    @property
    def queues(self) -> int:
        return self.topics * QUEUES

    def ring(self, number: int) -> Ring:
        """Return the requests of a round; the warm-up is round -1."""
        return sends(self, number + 1)


def tag_name(number: int) -> str:
    """Return a tag of ordinary traffic; tags are of several lengths."""
    return f"tag{number // 6}{'x' * (number % 6)}"


def sends(traffic: Traffic, seed: int, count: int = RING_SIZE) -> Ring:
    chance = random.Random(seed)
    queues = (_even_queues if traffic.is_even else _queues_by_popularity)(chance, traffic.topic_names, count)
    return ring_of([_send(chance, queue, traffic, OPAQUE_FIRST + index) for index, queue in enumerate(queues)])


def _queues_by_popularity(chance: random.Random, topics: Sequence[str], count: int) -> list[Queue]:
    popularity = [1 / (place + 1) for place in range(len(topics))]
    return [(topic, chance.randrange(QUEUES)) for topic in chance.choices(topics, popularity, k=count)]


def _even_queues(chance: random.Random, topics: Sequence[str], count: int) -> list[Queue]:
    """Return every queue equally often, give or take one, in random order."""
    queues = list(itertools.islice(itertools.cycle(itertools.product(topics, range(QUEUES))), count))
    chance.shuffle(queues)
    return queues


def _send(chance: random.Random, queue: Queue, traffic: Traffic, opaque: int) -> bytes:
    fields = sending(*queue, _properties(chance, traffic.tags))
    fields["a"] = f"producers-{chance.randrange(traffic.groups)}"
    fields["g"] = str(1_700_000_000_000 + chance.randrange(10**9))
    size = int(chance.lognormvariate(0, _BODY_SIZE_SPREAD) * _BODY_SIZE_MEDIAN)
    body = chance.randbytes(min(max(size, _BODY_SIZES[0]), _BODY_SIZES[1]))
    version = chance.choice(_VERSIONS)
    write = encode_binary if chance.random() < _BINARY else encode
    return write(310, fields, body, opaque=opaque, version=version)


def _properties(chance: random.Random, tags: int) -> str:
    """Return properties in the order in which Java writes them, which depends on their names only by chance."""
    found = [("UNIQ_KEY", f"{chance.randrange(16**24):024X}{KEY_COUNTER.decode()}"), ("WAIT", "true")]
    if chance.random() < _KEYS:
        found.append(("KEYS", " ".join(_word(chance, 4, 24) for _ in range(chance.choice((1, 1, 1, 2, 3))))))
    if chance.random() < _TAG:
        found.append(("TAGS", tag_name(chance.randrange(tags))))
    if chance.random() < _PROPERTIES:
        found += [(name, _word(chance, 1, 30)) for name in chance.sample(_NAMES, chance.randint(1, 4))]
    chance.shuffle(found)
    return "".join(f"{name}\x01{value}\x02" for name, value in found)


def _word(chance: random.Random, size_min: int, size_max: int) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=chance.randint(size_min, size_max)))


def make_topics(port: int, topics: Sequence[str]) -> None:
    """Send one message to each topic, which creates it."""
    with connect(port) as connection:
        for topic in topics:
            answer = decode(ask(connection, encode(310, sending(topic, 0, "UNIQ_KEY\x01first\x02"), b"first")))
            if answer.code:
                raise RuntimeError(f"topic {topic} was not created: {json.dumps(answer.header)}")
