"""The data folder of a local cluster: its lock and its state file."""

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
from kerolox.runtime.user_dir import home
from kerolox.store.lock import Lock, StoreLocked, take_lock

_LOCK = "up.lock"
_STATE = "up.json"
# struct flock for F_GETLK: its format, the values of the query, and the indices of l_type and l_pid.
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
    """The state file of `kerolox up`."""

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
        """The metrics URLs of this process, and of each broker process."""
        return [url for url in (self.metrics, *(broker.metrics for broker in self.brokers)) if url is not None]


def default_folder() -> Path:
    """Return the default data folder."""
    return home() / "up"


class Folder:
    """The lock tells whether a cluster runs; the state file describes it and may be stale."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    @property
    def flag(self) -> str:
        """The `--data` option for this folder, quoted for a shell; empty for the default folder."""
        is_default = self.path == Folder(default_folder()).path
        return "" if is_default else f" --data {shlex.quote(str(self.path))}"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Create and lock the folder until the block ends; raise ConfigurationError if another process has it."""
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
        """Return the id of the process that has locked this folder, or None. A process does not see its own lock."""
        layout, query, type_index, pid_index = _FLOCK["darwin" if sys.platform == "darwin" else "linux"]
        try:
            with (self.path / _LOCK).open("rb+") as file:
                result = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(layout, *query))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR):
                raise ConfigurationError(f"folder {self.path} cannot be read: {error.strerror}") from error
            raise
        fields = struct.unpack(layout, result)
        return None if fields[type_index] == fcntl.F_UNLCK else int(fields[pid_index])

    def state(self) -> UpState | None:
        """Return the state file, or None. Use `holder` to check whether the cluster still runs."""
        try:
            return msgspec.json.decode((self.path / _STATE).read_bytes(), type=UpState)
        except (OSError, msgspec.MsgspecError):
            return None

    def save_state(self, state: UpState) -> None:
        """Replace the state file atomically, without fsync: the processes it describes do not survive a crash."""
        temporary = self.path / f"{_STATE}.tmp"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(state)) + b"\n")
        temporary.replace(self.path / _STATE)

    def delete_state(self) -> None:
        (self.path / _STATE).unlink(missing_ok=True)
