"""Configures logging: plain text or JSON, to standard error or to rotating files."""

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
from kerolox.runtime.text.terminal import escape_json, escape_line, escape_lines

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# Lines queued for a slow disk or a blocked terminal; further lines are dropped and counted.
_QUEUED_LINES_MAX = 10_000
# How long a process that is stopping waits for its last lines to be written.
_CLOSE_TIMEOUT_SECONDS = 5.0


class LogFormat(Enum):
    """Plain text, or one JSON object per line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(Enum):
    """The lowest level that is written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The log file is `NAME.log` in `directory`; without a directory, lines go to standard error.

    A file that has reached `file_size_max` is renamed to `NAME.log.1`, the previous one to `NAME.log.2`, and so on;
    `files_max` files are kept in all.
    """

    name: str
    directory: Path | None = None
    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO
    file_size_max: int = 128 * 1024 * 1024
    files_max: int = 10


@contextmanager
def logging_as(options: LogOptions) -> Iterator[None]:
    """Configure the root logger inside the `with` block; if lines go to a file, standard error gets warnings only.

    A separate thread writes the lines, so that the event loop never blocks on a disk or a terminal.
    """
    handler = ThreadedHandler(_handlers(options))
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
            # The current file counts towards `files_max`.
            kept = max(options.files_max - 1, 0)
            size_max = options.file_size_max
            handlers.append(RotatingFileHandler(file, "a", size_max, kept, encoding="utf-8", errors="backslashreplace"))
        except OSError as error:
            raise ConfigurationError(f"log file {file} cannot be written: {error.strerror or error}") from error
    for handler in handlers:
        handler.setFormatter(JsonFormatter() if options.format is LogFormat.JSON else TextFormatter())
    return handlers


class TextFormatter(logging.Formatter):
    """Plain text. Line ends and control characters in untrusted names are escaped and cannot forge log lines."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        # Formatter.format would reuse a traceback that another handler has formatted, which is not escaped.
        record.message = escape_line(record.getMessage())
        record.asctime = self.formatTime(record)
        parts = [self.formatMessage(record)]
        if record.exc_info:
            parts.append(_indented(self.formatException(record.exc_info)))
        if record.stack_info:
            parts.append(_indented(record.stack_info))
        return "\n".join(parts)


def _indented(traceback: str) -> str:
    """Return the traceback with every line indented, so that no line of an error message looks like a log line."""
    return "\n".join(f"    {line}" for line in escape_lines(traceback).split("\n"))


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time in UTC, level, logger, message, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": _encodable(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = _encodable(self.formatException(record.exc_info))
        return escape_json(msgspec.json.encode(line).decode())


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


class ThreadedHandler(logging.Handler):
    """Queues lines for a thread that passes them to the handlers that write them."""

    def __init__(self, handlers: list[logging.Handler], *, queued_max: int = _QUEUED_LINES_MAX) -> None:
        super().__init__()
        self._handlers = handlers
        for handler in handlers:
            # The default prints a traceback to standard error for each line, for example when the disk is full.
            handler.handleError = self._count_failure  # type: ignore[method-assign]
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(queued_max)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        # Format now: the arguments may have changed when the thread writes the line.
        record.msg, record.args = record.getMessage(), None
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write the queued lines, but give up after a few seconds."""
        try:
            self._queue.put(None, timeout=_CLOSE_TIMEOUT_SECONDS)
        except queue.Full:
            return
        self._thread.join(_CLOSE_TIMEOUT_SECONDS)
        super().close()

    def _count_failure(self, record: logging.LogRecord) -> None:
        self._dropped += 1

    def _write_all(self) -> None:
        while (record := self._queue.get()) is not None:
            before = self._dropped
            self._write(record)
            # Report dropped lines only after a successful write, or the report would be dropped too.
            if before and self._dropped <= before:
                self._dropped -= before
                text = f"{before} log lines were dropped: they came too fast, or could not be written"
                self._write(logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None))
        for handler in self._handlers:
            handler.close()

    def _write(self, record: logging.LogRecord) -> None:
        for handler in self._handlers:
            if record.levelno >= handler.level:
                handler.handle(record)
