"""The server side of a connection: preamble (TLS, PROXY protocol), flow control and limits."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kerolox.errors import ProtocolError
from kerolox.remoting.address import AddressList, format_address
from kerolox.remoting.connection import Connection
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Router
from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.tls import ServerTls, TlsMode
from kerolox.wire import preamble
from kerolox.wire.frames import Frame

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreambleRules:
    """Rules for the bytes before the first frame of a connection: TLS, and PROXY headers of trusted addresses."""

    tls_mode: TlsMode = TlsMode.DISABLED
    tls: ServerTls | None = None
    # Addresses of proxies whose PROXY headers are trusted.
    trusted_proxies: AddressList = AddressList("")


class ServerConnection(Connection):
    """Detects the protocol of the peer, and stops reading from a peer that does not read its responses."""

    def __init__(
        self,
        router: Router,
        limits: Limits,
        *,
        connection_limit: ConnectionLimit,
        rules: PreambleRules | None = None,
        on_made: Callable[[Connection], None] | None = None,
        on_closed: Callable[[Connection], None] | None = None,
    ) -> None:
        super().__init__(router, limits, on_closed=on_closed)
        self._connection_limit = connection_limit
        self._rules = rules or PreambleRules()
        self._on_made = on_made
        self._preamble = b""
        self._is_proxied = False
        # Frames that were read but not handled yet, because the peer does not read its responses.
        self._held: Iterator[Frame] | None = None
        self._receive = ServerConnection._receive_preamble

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

    def _release(self) -> None:
        super()._release()
        self._preamble = b""
        self._held = None

    def _count_partial(self) -> None:
        super()._count_partial()
        self._connection_limit.partial_frames.update(self, self._counted_size)

    def _log_refusal(self, reason: str) -> None:
        log.log(self._connection_limit.log_limit.level(), "closed the connection from %s: %s", self.remote, reason)

    def _hold(self, frames: Iterator[Frame]) -> bool:
        if self._writable is None:
            return False
        self._held = frames
        return True

    @property
    def is_partial(self) -> bool:
        # While reading is paused no frame can become complete; that is not the fault of the peer.
        return self._writable is None and (bool(self._preamble) or super().is_partial)

    def _receive_preamble(self, data: bytes) -> None:
        data, self._preamble = self._preamble + data, b""
        try:
            found = preamble.look(data)
            if found is None:
                self._preamble = data
            elif found.kind is preamble.Kind.PROXY:
                if self._is_proxied:
                    raise ProtocolError("second PROXY header")
                self._check_proxy()
                self._is_proxied = True
                if found.source is not None:
                    self.remote = format_address(found.source)
                if data[found.size :]:
                    self._receive_preamble(data[found.size :])
            elif found.kind is preamble.Kind.TLS:
                if self._rules.tls is None or self._rules.tls_mode is TlsMode.DISABLED:
                    raise ProtocolError("TLS handshake, but TLS is not configured (tls.server.mode)")
                self.accept_tls(self._rules.tls.context())
                self._receive_plain = ServerConnection._receive_first_plain
                self._receive_tls(data)
            else:
                if self._rules.tls_mode is TlsMode.ENFORCING:
                    raise ProtocolError("client without TLS, but tls.server.mode is enforcing")
                self._receive = Connection._receive_frames
                self._receive_frames(data)
        except ProtocolError as error:
            self._refuse(error)

    def _check_proxy(self) -> None:
        """ProtocolError unless the peer is a trusted proxy: with a PROXY header anyone could claim any address."""
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername")
        if peer is None or not self._rules.trusted_proxies.includes(peer[0]):
            raise ProtocolError("PROXY header from an address that proxyProtocolTrustedAddresses does not list")

    def _receive_first_plain(self, data: bytes) -> None:
        """Check the first bytes inside TLS: HTTP and nested preambles are refused there too."""
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
        self._receive_plain = Connection._receive_frames
        self._receive_frames(data)
