"""The folder of a cluster on this machine: who has it open, and what runs from it."""

import errno
import fcntl
import os
import shlex
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kerolox.errors import ConfigurationError
from kerolox.runtime.home import home
from kerolox.store.lock import Lock, StoreLocked, take_lock

_LOCK = "up.lock"
_STATE = "up.json"
# struct flock, by which a system tells who holds a lock: its members, and which of them are its kind and the process.
_FLOCK = {
    "linux": ("hhqqi4x", (fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0), 0, 4),
    "darwin": ("qqihh", (0, 1, 0, fcntl.F_WRLCK, os.SEEK_SET), 3, 2),
}


class BrokerState(msgspec.Struct):
    """A broker of a running cluster; `state` is running, restarting or failed."""

    name: str
    address: str
    pid: int
    state: str = "running"
    restarts: int = 0
    metrics: str | None = None


class UpState(msgspec.Struct, kw_only=True):
    """What `kerolox up` tells of itself."""

    pid: int
    version: str
    data: str
    started: int
    ready_seconds: float
    namesrv: str
    brokers: list[BrokerState] = []
    dashboard: str | None = None
    metrics: str | None = None

    @property
    def metrics_urls(self) -> list[str]:
        """Where Prometheus is told of this process, and of each broker that has one of its own."""
        return [url for url in (self.metrics, *(broker.metrics for broker in self.brokers)) if url is not None]


def default_folder() -> Path:
    """Returns where a cluster keeps its data unless it is told otherwise."""
    return home() / "up"


class Folder:
    """Its lock says whether something runs; its state file only what."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    @property
    def flag(self) -> str:
        """What a command is to be given to mean this folder, ready for a shell; nothing where it would anyway."""
        is_default = self.path == Folder(default_folder()).path
        return "" if is_default else f" --data {shlex.quote(str(self.path))}"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Makes the folder and has it alone until the block ends; ConfigurationError if somebody else has it."""
        lock = self._take()
        try:
            yield
        finally:
            lock.release()

    def _take(self) -> Lock:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return take_lock(self.path / _LOCK)
        except StoreLocked as error:
            raise ConfigurationError(
                f"{self.path} is used by another `kerolox up` (process {self.holder() or os.getpid()}): "
                f"stop it with `kerolox down{self.flag}`, or name another folder with --data"
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"folder {self.path} cannot be used: {error.strerror or error}; name another with --data"
            ) from error

    def holder(self) -> int | None:
        """Returns the process that runs from this folder, or None. This process does not see itself."""
        shape, asked, kind, process = _FLOCK["darwin" if sys.platform == "darwin" else "linux"]
        try:
            with (self.path / _LOCK).open("rb+") as file:
                answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(shape, *asked))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR):
                raise ConfigurationError(f"folder {self.path} cannot be read: {error.strerror}") from error
            raise
        told = struct.unpack(shape, answer)
        return None if told[kind] == fcntl.F_UNLCK else int(told[process])

    def state(self) -> UpState | None:
        """Returns what was last told, or None; whether it still runs is for `holder` to say."""
        try:
            return msgspec.json.decode((self.path / _STATE).read_bytes(), type=UpState)
        except (OSError, msgspec.MsgspecError):
            return None

    def tell(self, state: UpState) -> None:
        """Replaces the state file as a whole. It need not survive a power cut, for nothing that it tells of does."""
        temporary = self.path / f"{_STATE}.tmp"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        temporary.replace(self.path / _STATE)

    def forget(self) -> None:
        (self.path / _STATE).unlink(missing_ok=True)
