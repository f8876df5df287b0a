"""A server: its listener, its connections, and the idle check (NettyRemotingServer)."""

import logging
import resource
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import AddressList, format_address
from kerolox.remoting.connection import Connection, close_all
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Router
from kerolox.remoting.server.connection import PreambleRules, ServerConnection
from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.server.listener import Listener, check_free
from kerolox.remoting.tls import ServerTls, TlsMode
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

WATCH_SECONDS = 1.0


@dataclass(slots=True)
class _Watched:
    """When a connection last transferred bytes, and when it last completed a frame."""

    active_at: float
    frames: int
    frames_at: float


class Server(Service):
    """Serves requests on one address until closed."""

    def __init__(
        self,
        router: Router,
        *,
        host: str,
        port: int,
        clock: Clock,
        limits: Limits | None = None,
        backlog: int = 1024,
        tls_mode: TlsMode = TlsMode.DISABLED,
        tls: ServerTls | None = None,
        trusted_proxies: AddressList | None = None,
        on_closed: Callable[[Connection], None] | None = None,
        connection_limit: ConnectionLimit | None = None,
    ) -> None:
        if tls_mode is TlsMode.ENFORCING and tls is None:
            raise ConfigurationError("tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath")
        self._router = router
        self._host, self._port, self._backlog = host, port, backlog
        self._clock = clock
        self._limits = limits or Limits()
        self._rules = PreambleRules(tls_mode, tls, trusted_proxies or AddressList(""))
        self._on_closed = on_closed
        # May be shared with other servers of the process.
        self._connection_limit = connection_limit or ConnectionLimit(clock)
        self._listener: Listener | None = None
        self._connections: dict[Connection, _Watched] = {}
        # Lost connections whose requests are still in progress.
        self._leaving: set[Connection] = set()

    async def check(self) -> None:
        """ConfigurationError if the port is not free. Called before expensive work such as opening a store."""
        await self._try(check_free(self._host, self._port))

    async def open(self) -> None:
        raise_file_limit()
        self._connection_limit.open()
        self._listener = Listener(self._accept, self._connection_limit.admits)
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
        """The address that the server listens on; with port 0 configured, the port that the system chose."""
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
            self._router,
            self._limits,
            connection_limit=self._connection_limit,
            rules=self._rules,
            on_made=self._made,
            on_closed=self._lost,
        )

    def _made(self, connection: Connection) -> None:
        now = self._clock.monotonic()
        self._connections[connection] = _Watched(now, 0, now)
        self._connection_limit.count += 1
        # Accepted while the listener was being closed.
        if self._listener is None or not self._listener.is_serving:
            connection.abort()

    def _lost(self, connection: Connection) -> None:
        if self._connections.pop(connection, None) is not None:
            self._connection_limit.count -= 1
        if connection.is_working:
            self._leaving.add(connection)
        if self._on_closed is not None:
            self._on_closed(connection)

    def _watch(self, now: float) -> None:
        """Close connections that are idle, or whose frame stays incomplete."""
        limits = self._limits
        self._leaving = {connection for connection in self._leaving if connection.is_working}
        self._connection_limit.log_limit.report()
        for connection, seen in list(self._connections.items()):
            if connection.is_active:
                connection.is_active = False
                seen.active_at = now
            if not connection.is_partial or connection.frames_received != seen.frames:
                seen.frames, seen.frames_at = connection.frames_received, now
            if now - seen.frames_at >= limits.partial_frame_seconds:
                level = self._connection_limit.log_limit.level()
                log.log(level, "closed %s: frame still incomplete after %g s", connection.remote, now - seen.frames_at)
                connection.abort()
            elif now - seen.active_at >= limits.idle_seconds:
                log.info("closed %s: idle for %g s", connection.remote, now - seen.active_at)
                connection.abort()


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        log.debug("cannot raise the limit on open files")
