"""Where log lines go: plain text or JSON, to standard error or to files that make room when they are full."""

import logging
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import msgspec

from kerolox.errors import ConfigurationError
from kerolox.runtime.printable import in_a_line

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# So many lines wait for a slow disk, or for a terminal that nobody reads; what comes then is counted and left out.
_WAITING_MAX = 10_000
# A process that is to end does not wait longer for its last lines to be written.
_LAST_LINES_SECONDS = 5.0


class LogFormat(Enum):
    """A line for people, or an object for machines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(Enum):
    """From which level on lines are written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The file is `NAME.log` in `directory`; without one, lines go to standard error.

    A file that has reached its size becomes `NAME.log.1`, the one before `NAME.log.2`, up to `files_max`.
    """

    name: str
    directory: Path | None = None
    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO
    file_size_max: int = 128 * 1024 * 1024
    files_max: int = 10


@contextmanager
def logging_as(options: LogOptions) -> Iterator[None]:
    """Writes log lines as told until the block ends; beside a file, standard error gets warnings only.

    They are written by a thread of their own, so that no event loop waits for a disk or a terminal.
    """
    handler = WaitingHandler(_handlers(options))
    root = logging.getLogger()
    level_before = root.level
    root.addHandler(handler)
    root.setLevel(options.level.value)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level_before)
        handler.close()


def _handlers(options: LogOptions) -> list[logging.Handler]:
    terminal = logging.StreamHandler(sys.stderr)
    handlers: list[logging.Handler] = [terminal]
    if options.directory is not None:
        terminal.setLevel(logging.WARNING)
        file = options.directory / f"{options.name}.log"
        try:
            options.directory.mkdir(parents=True, exist_ok=True)
            # The file that is written to is one of them.
            kept = max(options.files_max - 1, 0)
            size_max = options.file_size_max
            handlers.append(RotatingFileHandler(file, "a", size_max, kept, encoding="utf-8", errors="backslashreplace"))
        except OSError as error:
            raise ConfigurationError(f"log file {file} cannot be written: {error.strerror or error}") from error
    for handler in handlers:
        handler.setFormatter(JsonFormatter() if options.format is LogFormat.JSON else TextFormatter())
    return handlers


class TextFormatter(logging.Formatter):
    """A line for people: what others call themselves may hold the end of one, and what follows would look like ours."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = in_a_line(record.message)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """An object to a line: time in UTC, level, logger and message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _encodable(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = _encodable(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


class WaitingHandler(logging.Handler):
    """Hands lines to a thread that writes them."""

    def __init__(self, handlers: list[logging.Handler], *, waiting_max: int = _WAITING_MAX) -> None:
        super().__init__()
        self._handlers = handlers
        for handler in handlers:
            # A disk that is full is no reason to fill the terminal.
            handler.handleError = self._failed  # type: ignore[method-assign]
        self._waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(waiting_max)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        # What it is about may have changed when the thread comes to it.
        record.msg, record.args = record.getMessage(), None
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        """Writes what is left, unless that takes too long."""
        try:
            self._waiting.put(None, timeout=_LAST_LINES_SECONDS)
        except queue.Full:
            return
        self._thread.join(_LAST_LINES_SECONDS)
        super().close()

    def _failed(self, record: logging.LogRecord) -> None:
        self._left_out += 1

    def _write_all(self) -> None:
        while (record := self._waiting.get()) is not None:
            before = self._left_out
            self._write(record)
            # Told with a line that could be written.
            if before and self._left_out <= before:
                self._left_out -= before
                text = f"{before} log lines were left out: they came too fast, or could not be written"
                self._write(logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None))
        for handler in self._handlers:
            handler.close()

    def _write(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)
