"""The accepting side: a listener, its connections, and the watch over those that stall."""

import logging
import resource
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import format_address
from kerolox.remoting.connection import Connection, close_all
from kerolox.remoting.crowd import Crowd
from kerolox.remoting.limits import Limits
from kerolox.remoting.listener import Listener, check_free
from kerolox.remoting.routes import Routes
from kerolox.remoting.server_connection import ServerConnection
from kerolox.remoting.tls import ServerTls, TlsMode
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0


@dataclass(slots=True)
class _Watched:
    """What was last seen of a connection, and when it was seen to change."""

    active_at: float
    frames: int
    frames_at: float


class Server(Service):
    """Answers requests from `routes` on one address until closed."""

    def __init__(
        self,
        routes: Routes,
        *,
        host: str,
        port: int,
        clock: Clock,
        limits: Limits | None = None,
        backlog: int = 1024,
        tls_mode: TlsMode = TlsMode.DISABLED,
        tls: ServerTls | None = None,
        on_closed: Callable[[Connection], None] | None = None,
        crowd: Crowd | None = None,
    ) -> None:
        if tls_mode is TlsMode.ENFORCING and tls is None:
            raise ConfigurationError("tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath")
        self._routes = routes
        self._host, self._port, self._backlog = host, port, backlog
        self._clock = clock
        self._limits = limits or Limits()
        self._tls_mode, self._tls = tls_mode, tls
        self._on_closed = on_closed
        # Shared with other servers of the process, if there are any.
        self._crowd = crowd or Crowd(clock)
        self._listener: Listener | None = None
        self._connections: dict[Connection, _Watched] = {}
        # Lost, with requests still being worked on.
        self._leaving: set[Connection] = set()

    async def check(self) -> None:
        """ConfigurationError if it could not listen; for whoever has much to do before it does."""
        await self._try(check_free(self._host, self._port))

    async def open(self) -> None:
        raise_file_limit()
        self._crowd.open()
        self._listener = Listener(self._accept, self._crowd.admits)
        await self._try(self._listener.open(self._host, self._port, backlog=self._backlog))

    async def _try(self, listening: Coroutine[Any, Any, None]) -> None:
        try:
            await listening
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(
                f"cannot listen on {format_address((self._host, self._port))}: {reason}"
            ) from error

    @property
    def address(self) -> str:
        """Where the server listens; with port 0 in the configuration, the port the system chose."""
        assert self._listener is not None
        return format_address(self._listener.sockets[0].getsockname())

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(WATCH_SECONDS)
            self._watch(self._clock.monotonic())

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await close_all([*self._connections, *self._leaving], seconds=0.2)

    def _accept(self) -> Connection:
        return ServerConnection(
            self._routes,
            self._limits,
            tls_mode=self._tls_mode,
            tls=self._tls,
            on_made=self._made,
            on_closed=self._lost,
        )

    def _made(self, connection: Connection) -> None:
        now = self._clock.monotonic()
        self._connections[connection] = _Watched(now, 0, now)
        self._crowd.count += 1
        # One that was on its way in when the listener was closed.
        if self._listener is None or not self._listener.is_serving:
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        if self._connections.pop(connection, None) is not None:
            self._crowd.count -= 1
        if connection.is_working:
            self._leaving.add(connection)
        if self._on_closed is not None:
            self._on_closed(connection)

    def _watch(self, now: float) -> None:
        """Closes connections that are silent, or that never finish what they began."""
        limits = self._limits
        self._leaving = {connection for connection in self._leaving if connection.is_working}
        partial_bytes = 0
        for connection, seen in list(self._connections.items()):
            if connection.is_active:
                connection.is_active = False
                seen.active_at = now
            if not connection.is_partial or connection.frames_received != seen.frames:
                seen.frames, seen.frames_at = connection.frames_received, now
            partial_bytes += connection.partial_size
            if now - seen.frames_at >= limits.partial_frame_seconds:
                log.warning("closed %s: a frame not complete after %g s", connection.remote, now - seen.frames_at)
                connection.abort()
            elif now - seen.active_at >= limits.idle_seconds:
                log.info("closed %s: idle for %g s", connection.remote, now - seen.active_at)
                connection.abort()
        if partial_bytes > limits.partial_bytes_max:
            self._free_partial(partial_bytes)

    def _free_partial(self, partial_bytes: int) -> None:
        """Closes those who hold the most of incomplete frames, until all hold little enough."""
        for connection in sorted(self._connections, key=lambda connection: -connection.partial_size):
            if partial_bytes <= self._limits.partial_bytes_max:
                return
            log.warning("closed %s: incomplete frames hold %d bytes in all", connection.remote, partial_bytes)
            partial_bytes -= connection.partial_size
            connection.abort()


def raise_file_limit() -> None:
    """Allows as many open files, and so connections, as the system permits this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        log.debug("the limit on open files stays as it is")
