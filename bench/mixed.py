"""Mixed pulls of several consumer groups while producers send ordinary traffic to the same topics.

Every broker answers the same pull at once and with as many messages, however fast its producers are: a pull starts at a
message that was stored before the load, or at the end of a topic without producers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bench.compiled import CompiledGenerator, CompiledResult
from bench.fairness import LEAD_SECONDS, beside
from bench.frames import OPAQUE_FIRST, Ring, encode, encode_binary, ring_of
from bench.generator import Load
from bench.messages import PULL_SIZE, QUEUES, Subscription, pulling
from bench.ordinary import Traffic, tag_name

RING_SIZE = 2048
# Topics of its own, whose first messages are the backlog. Few tags: a ring has only some messages for each queue, in
# which consumers would find hardly any of 240 tags.
TRAFFIC = Traffic(tags=30, prefix="mixed")
# Consumers read the most popular topics of the producers. Before the load, these get messages evenly.
BACKLOG = replace(TRAFFIC, topics=8, is_even=True)
BACKLOG_SIZE = 1600
QUIET_TOPIC = "mixed-quiet"
SUBSCRIPTIONS = (
    Subscription("consumers-of-all"),
    Subscription("consumers-of-all-again"),
    Subscription("consumers-of-one-tag", tag_name(7)),
    Subscription("consumers-of-two-tags", f"{tag_name(11)} || {tag_name(24)}"),
)
# A pull with tags examines at most 800 messages (16,000 bytes of a consume queue, in RocketMQ and Kerolox).
_EXAMINED_MAX = 800
# Shares of pulls at the end of a quiet queue, and of those at the newest messages instead of the past.
_QUIET, _NEWEST = 0.125, 0.5
_BINARY = 0.25


@dataclass(frozen=True, slots=True)
class Mixed:
    """The result of the producers while consumers pull, and of the consumers while producers send."""

    sends: CompiledResult
    pulls: CompiledResult

    @property
    def results(self) -> tuple[CompiledResult, ...]:
        return self.sends, self.pulls

    @property
    def cores(self) -> float:
        """The CPU seconds of the broker per second, for both loads together."""
        return sum(result.server_cpu_seconds for result in self.results) / sum(
            result.seconds for result in self.results
        )

    @property
    def cpu_per_request(self) -> float:
        """The CPU seconds of the broker per request of either load."""
        return self.cores / (self.sends.rate + self.pulls.rate)


def measure(
    generator: CompiledGenerator, producers: Load, consumers: Load, *, lead_seconds: float = LEAD_SECONDS
) -> Mixed:
    """Run each load while the other one runs in the background."""
    return Mixed(
        sends=beside(generator, producers, consumers, lead_seconds),
        pulls=beside(generator, consumers, producers, lead_seconds),
    )


def pulls(seed: int, ends: Mapping[str, Sequence[int]], count: int = RING_SIZE) -> Ring:
    """Return a ring of pulls in random order; `ends` are the max offsets of the queues, of the quiet topic as well."""
    chance = random.Random(seed)
    return ring_of([_pull(chance, ends, OPAQUE_FIRST + index) for index in range(count)])


def backlog_ends() -> dict[str, list[int]]:
    """Return the max offsets of queues that have the backlog and no more, for a warm-up that is alike everywhere."""
    return {**{topic: [BACKLOG_SIZE] * QUEUES for topic in BACKLOG.topic_names}, QUIET_TOPIC: [1] * QUEUES}


def _pull(chance: random.Random, ends: Mapping[str, Sequence[int]], opaque: int) -> bytes:
    queue_id, subscription = chance.randrange(QUEUES), chance.choice(SUBSCRIPTIONS)
    if chance.random() < _QUIET:
        topic = QUIET_TOPIC
        queue_offset = ends[topic][queue_id]
    else:
        topic = chance.choice(BACKLOG.topic_names)
        # There are as many messages from the offset on as the pull examines, whatever the producers add meanwhile.
        examined_max = PULL_SIZE if subscription.expression == "*" else _EXAMINED_MAX
        is_newest = chance.random() < _NEWEST
        queue_offset = (
            ends[topic][queue_id] - examined_max if is_newest else chance.randrange(BACKLOG_SIZE - examined_max)
        )
    write = encode_binary if chance.random() < _BINARY else encode
    return write(11, pulling(topic, queue_id, queue_offset, subscription), opaque=opaque)
