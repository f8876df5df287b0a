"""TLS between the frames and the socket, on both sides."""

import contextlib
import logging
import ssl
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kerolox.errors import ConfigurationError

log = logging.getLogger(__name__)


class _AnyCase(Enum):
    """Settings that the original reads without regard to case."""

    @classmethod
    def _missing_(cls, value: object) -> "_AnyCase | None":
        return next((member for member in cls if member.value == str(value).lower()), None)


class TlsMode(_AnyCase):
    """What a server does with TLS: refuse it, take either by the first byte, or take nothing else."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(_AnyCase):
    """Whether clients must show a certificate, may show one, or are not asked."""

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
    """Where a server's certificate and key are, and the CA its clients are checked against, if any."""

    certificate: Path
    key: Path
    key_password: str | None = None
    trust: Path | None = None
    client_auth: ClientAuth = ClientAuth.NONE


class ServerTls:
    """The context for new connections, loaded anew when one of its files has changed."""

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
        """Returns the newest context that could be loaded; a half-written certificate leaves the old in place."""
        stamp = self._current_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._load()
                log.info("loaded TLS certificate %s anew", self._files.certificate)
            except (OSError, ssl.SSLError) as error:
                log.warning("kept the old TLS certificate, %s cannot be loaded: %s", self._files.certificate, error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.trust)
        context.options |= ssl.OP_NO_RENEGOTIATION
        # Without a password, OpenSSL would ask for that of an encrypted key on the terminal.
        context.load_cert_chain(files.certificate, files.key, files.key_password or "")
        context.verify_mode = _VERIFY_MODES[files.client_auth]
        return context

    def _current_stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(path) for path in (self._files.certificate, self._files.key, self._files.trust))


def client_context(
    trust: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Returns a context that verifies the server when a CA is given, and only encrypts when none is."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=trust)
    if trust is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


class TlsLayer:
    """Encryption as a function of bytes: ciphertext in, plaintext out, and the reverse."""

    def __init__(self, context: ssl.SSLContext, *, server_side: bool, server_hostname: str | None = None) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self._waiting: list[bytes | memoryview] = []
        self.is_established = False
        # Whether the peer has said that nothing more will come.
        self.is_ended = False

    def receive(self, ciphertext: bytes) -> bytes:
        """Returns what has become readable; ssl.SSLError if the peer is not to be trusted."""
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
        """Encrypts, or keeps until the handshake is done; `outgoing` has what must go out."""
        if self.is_established:
            self._object.write(plaintext)
        else:
            self._waiting.append(plaintext)

    def outgoing(self) -> bytes:
        return self._outgoing.read()

    def start(self) -> None:
        """Begins the handshake; the client speaks first."""
        self._shake_hands()

    def end(self) -> None:
        """Says goodbye, so that the peer can tell an end from a cut."""
        if self.is_established:
            # The peer's goodbye is not waited for, and after a failure there is none.
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
