"""Log formats, rotating files, and the thread that writes the lines."""

import json
import logging
import sys
import threading
from pathlib import Path

import pytest

from kerolox.errors import ConfigurationError
from kerolox.runtime.logs import LogFormat, LogLevel, LogOptions, ThreadedHandler, logging_as

log = logging.getLogger("kerolox.testing.logs")


def test_lines_go_to_a_file_and_warnings_also_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logging_as(LogOptions(name="broker", directory=tmp_path / "logs")):
        log.debug("not logged")
        log.info("opened %s", "a store")
        log.warning("the disk is full")

    lines = (tmp_path / "logs" / "broker.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO kerolox.testing.logs: opened a store",
        "WARNING kerolox.testing.logs: the disk is full",
    ]
    assert capsys.readouterr().err.splitlines() == lines[1:]


def test_without_a_directory_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as(LogOptions(name="broker", level=LogLevel.DEBUG)):
        log.debug("frame")
    log.warning("after the end")

    assert capsys.readouterr().err.count("\n") == 1


def test_json_format_writes_one_object_per_line_with_its_traceback(tmp_path: Path) -> None:
    with logging_as(LogOptions(name="up", directory=tmp_path, format=LogFormat.JSON)):
        log.info("two\nlines of %s", "text")
        try:
            raise ValueError("seven")
        except ValueError:
            log.exception("failed")

    first, second = map(json.loads, (tmp_path / "up.log").read_text().splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("INFO", log.name, "two\nlines of text")
    assert first["time"].endswith("+00:00")
    assert "exception" not in first
    assert second["exception"].endswith("ValueError: seven")


def test_untrusted_names_cannot_forge_log_lines(tmp_path: Path) -> None:
    with logging_as(LogOptions(name="broker", directory=tmp_path)):
        log.info("producer %s", "x\n2026-01-31 12:00:00,000 ERROR kerolox.store: \x1b[31mall is lost\x85\r\tend")
        try:
            raise ValueError("seven")
        except ValueError:
            log.exception("failed")

    first, second, *traceback = (tmp_path / "broker.log").read_text().splitlines()
    assert first.endswith(
        r"producer x\x0a2026-01-31 12:00:00,000 ERROR kerolox.store: \x1b[31mall is lost\x85\x0d" + "\tend"
    )
    assert second.endswith(" failed")
    assert traceback[-1] == "    ValueError: seven"


def test_size_and_number_of_files_are_limited(tmp_path: Path) -> None:
    with logging_as(LogOptions(name="broker", directory=tmp_path, file_size_max=4096, files_max=3)):
        for number in range(1000):
            log.info("line %d %s", number, "x" * 50)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker.log", "broker.log.1", "broker.log.2"]
    assert all(path.stat().st_size <= 4096 for path in tmp_path.iterdir())
    assert "line 999" in (tmp_path / "broker.log").read_text()


def test_a_log_directory_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(ConfigurationError, match=r"log file .*broker\.log cannot be written"),
        logging_as(LogOptions(name="broker", directory=tmp_path / "file")),
    ):
        pass


class SlowHandler(logging.Handler):
    """Blocks until `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.released = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.begun.set()
        self.released.wait(60)
        self.lines.append(record.getMessage())


def test_logging_does_not_block_on_a_slow_disk_and_dropped_lines_are_counted() -> None:
    slow = SlowHandler()
    handler = ThreadedHandler([slow], queued_max=2)

    def emit(text: str) -> None:
        handler.handle(logging.LogRecord("kerolox", logging.INFO, "", 0, "%s", (text,), None))

    emit("a")
    assert slow.begun.wait(60)
    for text in ("b", "c", "d", "e"):
        emit(text)
    slow.released.set()
    handler.close()

    assert [line for line in slow.lines if len(line) == 1] == ["a", "b", "c"]
    assert slow.lines[2] == "2 log lines were dropped: they came too fast, or could not be written"


class FullDisk(logging.Handler):
    """Fails for the first two lines, as on a full disk."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1
        if self.count <= 2:
            self.handleError(record)
        else:
            self.lines.append(record.getMessage())


def test_failed_lines_are_reported_once_writing_works_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = FullDisk()
    handler = ThreadedHandler([full])

    for text in ("a", "b", "c"):
        handler.handle(logging.LogRecord("kerolox", logging.INFO, "", 0, text, None, None))
    handler.close()

    assert full.lines == ["c", "2 log lines were dropped: they came too fast, or could not be written"]
    assert capsys.readouterr().err == ""


def test_a_traceback_with_lone_surrogates_is_written_as_json(tmp_path: Path) -> None:
    with logging_as(LogOptions(name="up", directory=tmp_path, format=LogFormat.JSON)):
        try:
            raise ValueError("caf\udce9")
        except ValueError:
            log.exception("failed")

    assert json.loads((tmp_path / "up.log").read_text())["exception"].endswith(r"caf\udce9")


@pytest.mark.parametrize("form", list(LogFormat))
def test_names_with_lone_surrogates_are_written(tmp_path: Path, form: LogFormat) -> None:
    with logging_as(LogOptions(name="up", directory=tmp_path, format=form)):
        log.info("file %s", "caf\udce9")

    assert "udce9" in (tmp_path / "up.log").read_text()


def test_the_root_logger_is_restored(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))

    with logging_as(LogOptions(name="broker", directory=tmp_path)):
        assert len(root.handlers) == len(before[1]) + 1

    assert (root.level, list(root.handlers)) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "log"], sys.version


def test_an_error_message_cannot_forge_a_log_line(tmp_path: Path) -> None:
    forged = "2026-01-01 00:00:00,000 INFO kerolox: all is well"
    with logging_as(LogOptions(name="broker", directory=tmp_path)):
        try:
            raise ValueError(f"seven\n{forged}\x1b[2J\u202e")
        except ValueError:
            log.exception("failed")

    lines = (tmp_path / "broker.log").read_text().splitlines()
    assert forged not in [line[: len(forged)] for line in lines]
    assert lines[-1] == f"    {forged}\\x1b[2J\\u202e"
