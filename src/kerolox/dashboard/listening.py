"""Connections of browsers: uvicorn's, but bounded in number, and hung up on when they stay silent."""

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
# A request's line and headers.
_HEAD_SIZE_MAX = 32 * 1024
# For what is being answered when the dashboard is closed.
_CLOSING_SECONDS = 2
# However many are refused, the log need not hear of each.
_WARNING_SECONDS = 60.0


class Server(uvicorn.Server):
    """Leaves the signals of the process to who owns them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(options: DashboardOptions) -> socket.socket:
    """Returns the socket that is listened on; ConfigurationError if it cannot be had."""
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
            "give another with --port, 0 takes a free one"
        ) from error
    return found


def server(app: ASGIApp, options: DashboardOptions) -> Server:
    return Server(
        uvicorn.Config(
            app,
            http=_protocol(options.connections_max, options.silence_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            # It warns of everything that strangers send; what fails here is logged here.
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEAD_SIZE_MAX,
            timeout_keep_alive=int(options.silence_seconds) or 1,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
    )


def _protocol(connections_max: int, silence_seconds: float) -> type[H11Protocol]:
    warned = float("-inf")

    def warn(now: float) -> None:
        nonlocal warned
        if now - warned >= _WARNING_SECONDS:
            warned = now
            log.warning("connections are refused, as there are %d", connections_max)

    class Bounded(H11Protocol):
        _silence: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > connections_max:
                warn(self.loop.time())
                transport.abort()
                return
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._hush()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Who has a request under way has all the time that takes; who has none must make one soon."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._hush()
            elif self._silence is None and not self.transport.is_closing():
                self._silence = self.loop.call_later(silence_seconds, self._hang_up)

        def _hang_up(self) -> None:
            """Closes it when it has read what it was sent; who does not read that either is not waited for."""
            self.transport.close()
            self._silence = self.loop.call_later(4 * silence_seconds, self.transport.abort)

        def _hush(self) -> None:
            if self._silence is not None:
                self._silence.cancel()
                self._silence = None

    return Bounded
