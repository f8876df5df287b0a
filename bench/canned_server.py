"""A server with canned responses, to measure the maximum rate of the load generator."""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
from bisect import bisect_right
from collections.abc import Iterator
from multiprocessing.connection import Connection

from bench.frames import Ring

_RECEIVE_SIZE = 64 * 1024


@contextlib.contextmanager
def canned_server(requests: Ring, answers: Ring) -> Iterator[tuple[int, int]]:
    """Start a process that answers the requests of a ring in order, without decoding them; yield its port and pid.

    It counts the received bytes to find how many requests are complete, and sends that many responses in one call.
    """
    receiver, sender = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(sender, requests, answers))
    process.start()
    try:
        if not receiver.poll(30):
            raise TimeoutError("the canned server did not start within 30 s")
        port = receiver.recv()
        assert process.pid is not None
        yield port, process.pid
    finally:
        process.kill()
        process.join()


def _serve(ready: Connection, requests: Ring, answers: Ring) -> None:
    assert len(requests) == len(answers)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    received: dict[int, int] = {}
    ready.send(listener.getsockname()[1])
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == listener.fileno():
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[connection.fileno()] = connection
                received[connection.fileno()] = 0
                poll.register(connection, select.EPOLLIN)
                continue
            connection = connections[descriptor]
            # A generator that receives a wrong response disconnects early.
            with contextlib.suppress(ConnectionError):
                if data := connection.recv(_RECEIVE_SIZE):
                    before = received[descriptor]
                    received[descriptor] += len(data)
                    _answer(connection, requests, answers, before, received[descriptor])
                    continue
            poll.unregister(descriptor)
            connections.pop(descriptor).close()


def _answer(connection: socket.socket, requests: Ring, answers: Ring, before: int, after: int) -> None:
    first, end = _complete(requests, before), _complete(requests, after)
    while first < end:
        index = first % len(answers)
        count = min(end - first, len(answers) - index)
        connection.sendall(answers.slice(index, count))
        first += count


def _complete(requests: Ring, received: int) -> int:
    """Return the number of complete requests in the first `received` bytes."""
    laps, rest = divmod(received, len(requests.stream))
    return laps * len(requests) + bisect_right(requests.ends, rest)
