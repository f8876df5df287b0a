"""TLS: settings, reloading of certificates, and the layer between socket and frames."""

import contextlib
import logging
import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)


class _AnyCase(Enum):
    """Settings that RocketMQ reads case-insensitively."""

    @classmethod
    def _missing_(cls, value: object) -> "_AnyCase | None":
        return next((member for member in cls if member.value == str(value).lower()), None)


class TlsMode(_AnyCase):
    """Whether a server refuses TLS, accepts it beside plain connections, or requires it."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(_AnyCase):
    """Whether clients must present a certificate, may present one, or are not asked for one."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the server certificate and key, and of the CA that client certificates are verified with."""

    certificate: Path
    key: Path
    key_password: str | None = None
    trust: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE


class ServerTls:
    """The SSL context of new connections; reloaded when one of its files changes."""

    def __init__(self, files: TlsFiles) -> None:
        if files.client_auth is ClientAuth.REQUIRE and files.trust is None:
            raise ConfigurationError("tls.server.need.client.auth=require needs tls.server.trustCertPath")
        self._files = files
        self._stamp = self._current_stamp()
        try:
            self._context = self._load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(
                f"TLS certificate {files.certificate} with key {files.key} cannot be loaded: {error}"
            ) from error

    def context(self) -> ssl.SSLContext:
        """Return the current context. If reloading fails, as with a half-written certificate, the old one stays."""
        stamp = self._current_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._load()
                log.info("reloaded TLS certificate %s", self._files.certificate)
            except (OSError, ssl.SSLError) as error:
                log.warning("kept the old TLS certificate, %s cannot be loaded: %s", self._files.certificate, error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.trust)
        context.options |= ssl.OP_NO_RENEGOTIATION
        # With no password at all, OpenSSL would prompt for one on the terminal if the key is encrypted.
        context.load_cert_chain(files.certificate, files.key, files.key_password or "")
        context.verify_mode = _VERIFY_MODES[files.client_auth]
        return context

    def _current_stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in (self._files.certificate, self._files.key, self._files.trust))


def client_context(
    trust: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return a context that verifies the server if `trust` (a CA file) is given; otherwise it only encrypts."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=trust)
    if trust is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


class TlsLayer:
    """TLS without a socket: ciphertext in, plaintext out, and the reverse (sans-IO)."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._waiting: list[bytes | memoryview] = []
        self.is_established = False
        # Whether the peer has sent close_notify.
        self.is_ended = False

    def receive(self, ciphertext: bytes) -> bytes:
        """Return the decrypted bytes; ssl.SSLError if the handshake or verification fails."""
        self._incoming.write(ciphertext)
        if not self.is_established and not self._shake_hands():
            return b""
        plain: list[bytes] = []
        try:
            while piece := self._object.read(65536):
                plain.append(piece)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def send(self, plaintext: bytes | memoryview) -> None:
        """Encrypt bytes, or buffers them until the handshake is done; `outgoing` returns what to write."""
        if self.is_established:
            self._object.write(plaintext)
        else:
            self._waiting.append(plaintext)

    def outgoing(self) -> bytes:
        return self._outgoing.read()

    def start(self) -> None:
        """Start the handshake on the client side."""
        self._shake_hands()

    def end(self) -> None:
        """Send close_notify, so that the peer can tell a close from a truncated stream."""
        if self.is_established:
            # Does not wait for the close_notify of the peer; after a failure there is none.
            with contextlib.suppress(ssl.SSLError):
                self._object.unwrap()

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_established = True
        for plaintext in self._waiting:
            self._object.write(plaintext)
        self._waiting.clear()
        return True


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    if path is None:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
