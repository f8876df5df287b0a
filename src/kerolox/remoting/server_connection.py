"""The accepting end of a connection."""

import asyncio
from collections.abc import Callable, Iterator

from kerolox.errors import ProtocolError
from kerolox.remoting.address import format_address
from kerolox.remoting.connection import Connection
from kerolox.remoting.limits import Limits
from kerolox.remoting.routes import Routes
from kerolox.remoting.tls import ServerTls, TlsMode
from kerolox.wire import preamble
from kerolox.wire.frames import Frame


class ServerConnection(Connection):
    """The accepting end: finds out what the peer speaks, and stops reading from one that does not read."""

    def __init__(
        self,
        routes: Routes,
        limits: Limits,
        *,
        tls_mode: TlsMode = TlsMode.DISABLED,
        tls: ServerTls | None = None,
        on_made: Callable[[Connection], None] | None = None,
        on_closed: Callable[[Connection], None] | None = None,
    ) -> None:
        super().__init__(routes, limits, on_closed=on_closed)
        self._tls_mode = tls_mode
        self._server_tls = tls
        self._on_made = on_made
        self._preamble = b""
        self._is_proxied = False
        # Frames read but not answered yet, because the peer is slow to read its answers.
        self._held: Iterator[Frame] | None = None
        self._receive = self._receive_preamble

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._on_made is not None:
            self._on_made(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        frames, self._held = self._held, None
        if self.is_closed:
            return
        if frames is not None:
            self._handle(frames)
        if self._writable is None and not self.is_closed:
            assert self._transport is not None
            self._transport.resume_reading()

    def _hold(self, frames: Iterator[Frame]) -> bool:
        if self._writable is None:
            return False
        self._held = frames
        return True

    @property
    def is_partial(self) -> bool:
        # While we do not read, nothing can become complete, and that is not the peer's doing.
        return self._writable is None and (bool(self._preamble) or super().is_partial)

    def _receive_preamble(self, data: bytes) -> None:
        data, self._preamble = self._preamble + data, b""
        try:
            found = preamble.look(data)
            if found is None:
                self._preamble = data
            elif found.kind is preamble.Kind.PROXY:
                if self._is_proxied:
                    raise ProtocolError("a second PROXY header")
                self._is_proxied = True
                if found.source is not None:
                    self.remote = format_address(found.source)
                if data[found.size :]:
                    self._receive_preamble(data[found.size :])
            elif found.kind is preamble.Kind.TLS:
                if self._server_tls is None or self._tls_mode is TlsMode.DISABLED:
                    raise ProtocolError("a TLS client, and TLS is not set up here")
                self.accept_tls(self._server_tls.context())
                self._receive_plain = self._receive_first_plain
                self._receive_tls(data)
            else:
                if self._tls_mode is TlsMode.ENFORCING:
                    raise ProtocolError("a client without TLS, and tls.server.mode is enforcing")
                self._receive = self._receive_frames
                self._receive_frames(data)
        except ProtocolError as error:
            self._refuse(error)

    def _receive_first_plain(self, data: bytes) -> None:
        """Looks under TLS, too, for what is not for us."""
        data, self._preamble = self._preamble + data, b""
        try:
            found = preamble.look(data)
            if found is None:
                self._preamble = data
                return
            if found.kind is not preamble.Kind.FRAMES:
                raise ProtocolError(f"{found.kind.value} inside TLS")
        except ProtocolError as error:
            self._refuse(error)
            return
        self._receive_plain = self._receive_frames
        self._receive_frames(data)
