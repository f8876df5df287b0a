"""Finds the process that listens on a local port, from Linux's /proc."""

import contextlib
import socket
from pathlib import Path

# TCP_LISTEN in the `st` column of /proc/net/tcp.
_LISTENING = "0A"
_TABLES = ("net/tcp", "net/tcp6")


def is_free(port: int) -> bool:
    """Whether 127.0.0.1:port can be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listening_process(port: int, proc: Path = Path("/proc")) -> str | None:
    """Return e.g. `process 123 (java)`; None if nothing listens there, or if it is a process of another user."""
    sockets = _listening_sockets(port, proc)
    if not sockets:
        return None
    for process in proc.glob("[0-9]*"):
        # Skip processes that have ended meanwhile, or that we may not inspect.
        with contextlib.suppress(OSError):
            if any(_is_one_of(descriptor, sockets) for descriptor in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return None


def _is_one_of(descriptor: Path, sockets: set[str]) -> bool:
    try:
        return str(descriptor.readlink()) in sockets
    except OSError:
        return False


def _listening_sockets(port: int, proc: Path) -> set[str]:
    """Return the link targets (`socket:[inode]`) that descriptors of these sockets have in /proc/PID/fd."""
    found = set()
    for table in _TABLES:
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                found.add(f"socket:[{inode}]")
    return found
