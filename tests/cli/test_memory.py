"""Memory of a real broker and NameServer whose peers begin large frames and disconnect."""

import os
import re
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from kerolox.remoting.address import parse_address
from kerolox.remoting.tls import client_context
from kerolox.wire.frames import FRAME_SIZE_MAX
from tests.broker.brokers import SMALL
from tests.remoting.support import issue

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

BIN = Path(sys.executable).parent
PLAIN_ENVIRONMENT = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
MIB = 1024 * 1024
PATIENCE_SECONDS = 60


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str

    @property
    def resident(self) -> int:
        return self._status("VmRSS")

    @property
    def resident_peak(self) -> int:
        return self._status("VmHWM")

    def _status(self, key: str) -> int:
        found = re.search(rf"^{key}:\s+(\d+) kB$", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def started(command: str, home: Path, **settings: str) -> Iterator[Server]:
    """Run a server until the block ends."""
    tls = issue(trustme.CA(), home, "127.0.0.1")
    base = SMALL if command == "mqbroker" else {"listenPort": "0", "kvConfigPath": str(home / "kv.json")}
    file = home / "server.conf"
    config = {
        **base,
        "storePathRootDir": str(home / "store"),
        "tls.server.certPath": str(tls.certificate),
        "tls.server.keyPath": str(tls.key),
        **settings,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    process = subprocess.Popen(
        [str(BIN / command), "-c", str(file)],
        env=PLAIN_ENVIRONMENT | {"HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+", line)
        assert found is not None, line
        yield Server(process, found[0])
    finally:
        process.kill()
        process.communicate()


def begin_frame(server: Server, size: int, tls: ssl.SSLContext | None) -> socket.socket:
    """Send the first `size` bytes of a frame of maximum size, or fewer if the server closes the connection."""
    peer = socket.create_connection(parse_address(server.address), timeout=PATIENCE_SECONDS)
    if tls is not None:
        peer = tls.wrap_socket(peer, server_hostname="127.0.0.1")
    with suppress(ConnectionError, ssl.SSLError):
        peer.sendall(struct.pack(">II", FRAME_SIZE_MAX - 4, 100) + bytes(size - 8))
    return peer


def disconnect(peer: socket.socket) -> None:
    """Return when the server has read everything and closed its end."""
    with peer, suppress(OSError):
        peer.shutdown(socket.SHUT_WR)
        # Bypass TLS, which would raise over an end of file without close_notify.
        while socket.socket.recv(peer, 65536):
            pass


@pytest.mark.parametrize(("command", "is_tls"), [("mqbroker", False), ("mqbroker", True), ("mqnamesrv", False)])
def test_a_thousand_peers_that_disconnect_within_a_frame_leak_no_memory(
    tmp_path: Path, command: str, is_tls: bool
) -> None:
    tls = client_context() if is_tls else None
    with started(command, tmp_path) as server:
        before = server.resident
        for _ in range(50):
            for peer in [begin_frame(server, MIB // 4, tls) for _ in range(20)]:
                disconnect(peer)

        assert server.resident - before < 50 * MIB


def test_incomplete_frames_stay_within_their_memory_limit(tmp_path: Path) -> None:
    with started("mqnamesrv", tmp_path, partialFrameBytesMax=str(32 * MIB)) as server:
        before = server.resident
        for peer in [begin_frame(server, 8 * MIB, None) for _ in range(20)]:
            disconnect(peer)

        # A growing buffer is over-allocated by up to an eighth.
        assert server.resident_peak - before < 64 * MIB
