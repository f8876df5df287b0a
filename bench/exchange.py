"""The two inner loops of the load generator: many requests in flight on each connection, or a single one.

Work per response is done in C where possible: a regular expression finds the opaques, and a dictionary maps each to
the time when it was sent. An unknown or repeated opaque raises KeyError.
"""

from __future__ import annotations

import re
import select
import socket
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat

from bench.connections import RECEIVE_SIZE, SILENCE_SECONDS_MAX
from bench.frames import Ring

SAMPLES_MAX = 16

_opaques = re.compile(rb'"opaque":(\d+)').findall
_SUCCESS = b'"code":0,'


class WrongAnswerError(Exception):
    """A response had another code than 0, another opaque than its request, or was not a whole frame."""


@dataclass(slots=True)
class Observations:
    """The latency of every response in seconds, and a sample of raw responses."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    samples: list[bytes] = field(default_factory=list)


def exchange_singly(sockets: list[socket.socket], ring: Ring, deadline: float) -> Observations:
    """Keep one request in flight on each connection, so the expected response is known."""
    observations = Observations()
    by_descriptor = {connection.fileno(): connection for connection in sockets}
    frames = [ring.slice(index, 1) for index in range(len(ring))]
    marks = [b'"opaque":%b' % opaque for opaque in ring.opaques]
    clock = time.perf_counter
    turns, sent_at = dict.fromkeys(by_descriptor, 0), dict.fromkeys(by_descriptor, 0.0)
    tails: dict[int, bytes] = {}
    for descriptor, connection in by_descriptor.items():
        sent_at[descriptor] = clock()
        connection.sendall(frames[0])
    for descriptor in _readable(by_descriptor, turns):
        data = by_descriptor[descriptor].recv(RECEIVE_SIZE)
        now = clock()
        if not data:
            raise ConnectionError("the server closed a connection under load")
        if tails:
            data = tails.pop(descriptor, b"") + data
        if len(data) < 4 or len(data) < (size := 4 + int.from_bytes(data[:4])):
            tails[descriptor] = data
            continue
        turn = turns[descriptor]
        if len(data) != size or _SUCCESS not in data or marks[turn] not in data:
            raise WrongAnswerError(f"expected one successful response to {ring.opaques[turn]!r}, got: {data[:500]!r}")
        observations.latencies.append(now - sent_at[descriptor])
        if now < deadline:
            turn = turns[descriptor] = (turn + 1) % len(frames)
            sent_at[descriptor] = clock()
            by_descriptor[descriptor].sendall(frames[turn])
        else:
            del turns[descriptor]
            observations.samples.append(data)
    return observations


def exchange_pipelined(sockets: list[socket.socket], ring: Ring, in_flight: int, deadline: float) -> Observations:
    """Keep `in_flight` requests on each connection; responses may come in any order."""
    observations = Observations()
    pipelines = {connection.fileno(): _Pipeline(connection, ring, owed=in_flight) for connection in sockets}
    unanswered = dict.fromkeys(pipelines, True)
    for pipeline in pipelines.values():
        pipeline.send()
    for descriptor in _readable(pipelines, unanswered):
        pipeline = pipelines[descriptor]
        data = pipeline.tail + pipeline.socket.recv(RECEIVE_SIZE)
        now = time.perf_counter()
        if len(data) == len(pipeline.tail):
            raise ConnectionError("the server closed a connection under load")
        count, end, last = _cut(data)
        pipeline.tail = data[end:]
        if not count:
            continue
        found = _opaques(data, 0, end)
        if len(found) != count or data.count(_SUCCESS, 0, end) != count:
            raise WrongAnswerError(f"{count} answers, not all with code 0 and an opaque: {data[:500]!r}")
        observations.latencies.extend(map(now.__sub__, map(pipeline.sent_at.pop, found)))
        if len(observations.samples) < SAMPLES_MAX:
            observations.samples.append(data[last:end])
        if now < deadline:
            pipeline.owed += count
            pipeline.send()
        elif not pipeline.sent_at:
            del unanswered[descriptor]
    return observations


@dataclass(slots=True)
class _Pipeline:
    socket: socket.socket
    ring: Ring
    owed: int
    sent_at: dict[bytes, float] = field(default_factory=dict)
    tail: bytes = b""
    next: int = 0

    def send(self) -> None:
        """Send the `owed` next frames of the ring.

        The blocking socket does not block forever, because the frames in flight fit into the buffers of both sides.
        If the opaque of a frame is still unanswered from the previous cycle, this frame and all after it wait.
        """
        while self.owed:
            count = min(self.owed, len(self.ring) - self.next)
            opaques = self.ring.opaques[self.next : self.next + count]
            if not self.sent_at.keys().isdisjoint(opaques):
                return
            self.sent_at.update(zip(opaques, repeat(time.perf_counter())))
            self.socket.sendall(self.ring.slice(self.next, count))
            self.owed -= count
            self.next = (self.next + count) % len(self.ring)


def _readable(descriptors: Mapping[int, object], unanswered: Mapping[int, object]) -> Iterator[int]:
    """Yield readable connections until all requests have responses."""
    with select.epoll() as poll:
        for descriptor in descriptors:
            poll.register(descriptor, select.EPOLLIN)
        while unanswered:
            events = poll.poll(SILENCE_SECONDS_MAX)
            if not events:
                raise TimeoutError(f"{len(unanswered)} connections silent for {SILENCE_SECONDS_MAX:.0f} s")
            for descriptor, _ in events:
                yield descriptor


def _cut(data: bytes) -> tuple[int, int, int]:
    """Return the number of whole frames in `data`, and the end and the start of the last one."""
    count = last = end = 0
    size = len(data)
    while end + 4 <= size:
        following = end + 4 + int.from_bytes(data[end : end + 4])
        if following > size:
            break
        count += 1
        last, end = end, following
    return count, end, last
