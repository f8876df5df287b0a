"""uvicorn's HTTP server with a limit on connections and a timeout for idle ones."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from kerolox.dashboard.options import DashboardOptions
from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)

_BACKLOG = 128
# Request line and headers.
_HEAD_SIZE_MAX = 32 * 1024
# Time for pending responses when the dashboard is closed.
_SHUTDOWN_SECONDS = 2
# Interval between two warnings about refused connections.
_WARNING_SECONDS = 60.0


class Server(uvicorn.Server):
    """Does not install signal handlers: the process that embeds the dashboard owns its signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening_socket(options: DashboardOptions) -> socket.socket:
    """Return a listening socket; ConfigurationError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((options.host, options.port))
        found.listen(_BACKLOG)
        found.setblocking(False)
    except OSError as error:
        found.close()
        raise ConfigurationError(
            f"the dashboard cannot listen on {options.host}:{options.port}: {error.strerror or error}; "
            "choose another port with --port (0 picks a free one)"
        ) from error
    return found


def create_server(app: ASGIApp, options: DashboardOptions) -> Server:
    return Server(
        uvicorn.Config(
            app,
            http=_protocol(options.connections_max, options.silence_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            # uvicorn warns about every malformed request; our own errors are logged by the application.
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEAD_SIZE_MAX,
            timeout_keep_alive=int(options.silence_seconds) or 1,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


def _protocol(connections_max: int, idle_seconds: float) -> type[H11Protocol]:
    warned = float("-inf")

    def warn(now: float) -> None:
        nonlocal warned
        if now - warned >= _WARNING_SECONDS:
            warned = now
            log.warning("connections are refused: the limit of %d is reached", connections_max)

    class LimitedProtocol(H11Protocol):
        _idle_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections_max:
                warn(self.loop.time())
                transport.abort()
                return
            self._update_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._update_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._update_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _update_timer(self) -> None:
            """Run the timer while no request is being processed: the next one must be complete before it fires."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_timer()
            elif self._idle_timer is None and not self.transport.is_closing():
                self._idle_timer = self.loop.call_later(idle_seconds, self._close_idle)

        def _close_idle(self) -> None:
            """Close after buffered data is sent; aborts if the client does not read that either."""
            self.transport.close()
            self._idle_timer = self.loop.call_later(4 * idle_seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._idle_timer is not None:
                self._idle_timer.cancel()
                self._idle_timer = None

    return LimitedProtocol
