"""Who listens on a port of this machine, as far as the system tells."""

import contextlib
import socket
from pathlib import Path

# The state of a socket that listens, in the system's tables.
_LISTENING = "0A"
_TABLES = ("net/tcp", "net/tcp6")


def is_free(port: int) -> bool:
    """Whether somebody could listen there, for this machine only."""
    with socket.socket() as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listener(port: int, proc: Path = Path("/proc")) -> str | None:
    """Returns `process 123 (java)` of who listens on a port; None if nobody does, or it is somebody else's."""
    sockets = _sockets(port, proc)
    if not sockets:
        return None
    for process in proc.glob("[0-9]*"):
        # What has ended meanwhile, or is not ours to look at, is passed over.
        with contextlib.suppress(OSError):
            if any(_leads_to(descriptor, sockets) for descriptor in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
    return None


def _leads_to(descriptor: Path, sockets: set[str]) -> bool:
    try:
        return str(descriptor.readlink()) in sockets
    except OSError:
        return False


def _sockets(port: int, proc: Path) -> set[str]:
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
