"""Listening sockets of a server."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from kerolox.remoting.socket_transport import SocketTransport, Watched

log = logging.getLogger(__name__)

# The pause after the system ran out of file descriptors or memory for another connection.
_PAUSE_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Connections accepted in one loop iteration, so that existing ones get their turn.
_ACCEPTED_AT_ONCE = 64


class Listener:
    """Accepts connections until closed; `admits` gets the remote address, `protocol` makes the protocol object."""

    def __init__(self, protocol: Callable[[], Watched], admits: Callable[[object], bool] = lambda _: True) -> None:
        self._protocol = protocol
        self._admits = admits
        self._loop = asyncio.get_running_loop()
        self.sockets: list[socket.socket] = []
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}

    async def open(self, host: str, port: int, *, backlog: int) -> None:
        """Listen on every address of `host`; OSError if it has none, or binding fails."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self.sockets.append(_listening(socket.socket(family, kind, protocol), address, backlog))
        except BaseException:
            self.close()
            raise
        for listening in self.sockets:
            self._watch(listening)

    @property
    def is_serving(self) -> bool:
        return bool(self.sockets)

    def close(self) -> None:
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets = []

    def _watch(self, listening: socket.socket) -> None:
        self._pauses.pop(listening, None)
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, remote = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.error("accepting no connections for %g s: %s", _PAUSE_SECONDS, error)
                self._loop.remove_reader(listening)
                self._pauses[listening] = self._loop.call_later(_PAUSE_SECONDS, self._watch, listening)
                return
            if not self._admits(remote):
                accepted.close()
                continue
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            SocketTransport(self._loop, accepted, self._protocol())


async def check_free(host: str, port: int) -> None:
    """OSError if the port cannot be bound. Binds without listening, so that no client connects meanwhile."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in dict.fromkeys(found):
        with socket.socket(family, kind, protocol) as trying:
            _bind(trying, address)


def _bind(made: socket.socket, address: tuple[object, ...]) -> None:
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind(address)


def _listening(made: socket.socket, address: tuple[object, ...], backlog: int) -> socket.socket:
    try:
        _bind(made, address)
        made.listen(backlog)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
