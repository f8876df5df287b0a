"""Apache's mqadmin: one command per JVM, or many in one."""

from __future__ import annotations

import base64
import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from tests.apache.processes import (
    READY_SECONDS,
    Completed,
    ProcessError,
    environment,
    java_command,
    run_java,
    temporary_home,
)


def mqadmin(version: str, *arguments: str, namesrv: str | None = None, timeout_seconds: float = 60.0) -> Completed:
    """Run one command as an operator would; `namesrv` is added as -n."""
    main_class = "org.apache.rocketmq.tools.command.MQAdminStartup"
    return run_java(version, main_class, *arguments, *_naming(namesrv), timeout_seconds=timeout_seconds)


class Admin:
    """Runs mqadmin commands in one JVM, which is restarted after a command has ended it."""

    def __init__(self, version: str, home: Path) -> None:
        self._version = version
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str, namesrv: str | None = None, timeout_seconds: float = 60.0) -> Completed:
        """Run one command and return what it printed; the code is 1 if it called System.exit."""
        process = self._process or self._start()
        line = "\t".join((*arguments, *_naming(namesrv))) + "\n"
        assert process.stdin is not None
        process.stdin.write(line.encode())
        process.stdin.flush()
        how, stdout, stderr = self._read_line(process, timeout_seconds).rstrip("\n").split(" ")
        if how == "exit":
            self.close()
        return Completed(_text(stdout), _text(stderr), code=0 if how == "done" else 1)

    def close(self) -> None:
        """Stop the JVM; the next command starts another."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._process:
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            java_command(self._version, self._home, "Admin.java"),
            cwd=self._home,
            env=environment(self._home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._read_line(self._process, READY_SECONDS)
        return self._process

    def _read_line(self, process: subprocess.Popen[bytes], timeout_seconds: float) -> str:
        """Return the next line of the response. Kills the JVM and raises ProcessError after the timeout."""
        assert process.stdout is not None
        deadline = time.monotonic() + timeout_seconds
        line = b""
        while not line.endswith(b"\n"):
            chunk = _read_some(process.stdout, deadline)
            if not chunk:
                self.close()
                raise ProcessError(f"mqadmin {self._version} gave no answer within {timeout_seconds} s")
            line += chunk
        return line.decode()


@contextlib.contextmanager
def admin(version: str, files: Mapping[str, str] | None = None) -> Iterator[Admin]:
    """An `Admin` of that version; its JVM starts with the first command.

    `files` are laid into its directory `conf`.
    """
    with temporary_home() as home:
        for name, text in (files or {}).items():
            (home / "conf" / name).write_text(text)
        it = Admin(version, home)
        try:
            yield it
        finally:
            it.close()


def _read_some(stream: IO[bytes], deadline: float) -> bytes:
    """Return the available bytes, or none at the deadline or at EOF."""
    ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
    return os.read(stream.fileno(), 65536) if ready else b""


def _naming(namesrv: str | None) -> tuple[str, ...]:
    return () if namesrv is None else ("-n", namesrv)


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()
