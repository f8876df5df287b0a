"""Runs the queries of a pipeline until they end, fail or are stopped, and reports progress."""

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kerolox.errors import KeroloxError
from kerolox.spark.pipelines.engine.progress import (
    WRITE_INTERVAL_SECONDS,
    FlowProgress,
    PipelineProgress,
    ProgressFile,
    State,
    StreamFollower,
    now_millis,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

R = TypeVar("R")

_POLL_SECONDS: Final = 0.2
# How long a running batch may take to finish after a stop was requested.
GRACE_SECONDS: Final = 30.0
_SENTENCE_MAX: Final = 600


class PipelineFailed(KeroloxError):
    """Spark failed; the message is the reason in one sentence."""


class Stopped(Exception):
    """A stop was requested, and the running work is abandoned."""


class SignalFlag:
    """Like threading.Event, but a signal handler may set it.

    Event.wait and Event.set take the same lock, so a handler that sets the event while the main thread is just inside
    `wait` would deadlock. SimpleQueue.put is reentrant.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wake_ups: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._is_set = True
        self._wake_ups.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout_seconds: float) -> bool:
        """Return whether the flag is set, at once or within the timeout; of several waiters one is woken early."""
        if not self._is_set:
            with contextlib.suppress(Empty):
                self._wake_ups.get(timeout=timeout_seconds)
        return self._is_set


class Run:
    """One run of a pipeline: `with Run("orders") as run: run.follow_streams({...})`.

    A signal sets `stop`, a second one `stop_now`. `show` is called with the progress whenever it has changed. A
    progress file is written only if there is a folder.
    """

    def __init__(
        self,
        name: str,
        *,
        file: Path | None = None,
        master: str = "",
        folder: Path | None = None,
        show: Callable[[PipelineProgress], None] = lambda progress: None,
    ) -> None:
        self.progress = PipelineProgress(
            name=name,
            file=None if file is None else str(file),
            state="starting",
            pid=os.getpid(),
            master=master,
            started=now_millis(),
            updated=now_millis(),
        )
        self.stop = SignalFlag()
        self.stop_now = SignalFlag()
        self._show = show
        # The name may contain slashes, which must not become part of the path.
        file_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        self._file = ProgressFile(None if folder is None else folder / f"{file_name}.json")
        self._has_ended = threading.Event()
        self._heartbeat = threading.Thread(target=self._write_heartbeats, name=f"progress of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._report(is_urgent=True)
        self._heartbeat.start()
        return self

    def _write_heartbeats(self) -> None:
        """Update the progress file even while nothing happens: the dashboard treats an old file as a dead run."""
        while not self._has_ended.wait(WRITE_INTERVAL_SECONDS):
            self._file.write(self.progress)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Suppress Stopped: a requested stop is not a failure."""
        self._has_ended.set()
        self._heartbeat.join()
        is_stop = isinstance(error, Stopped)
        if error is not None and not is_stop:
            self.progress.error = error_sentence(error)
        state: State = "stopped" if is_stop or self.stop.is_set() else "done"
        self._set_state("failed" if self.progress.error else state)
        return is_stop

    def install_signal_handlers(self) -> None:
        """Make Ctrl-C and SIGTERM stop this run, and a second one stop it at once; only in a main thread."""

        def handle(number: int, frame: object) -> None:
            (self.stop_now if self.stop.is_set() else self.stop).set()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, handle)

    def add_flow(self, name: str) -> FlowProgress:
        """Add the progress of a flow, which the caller updates."""
        flow = FlowProgress(name)
        self.progress.flows.append(flow)
        return flow

    def report(self) -> None:
        """Show and write the changed progress."""
        self._show(self.progress)
        self._file.write(self.progress)

    def mark_running(self, master: str | None = None) -> None:
        if master is not None:
            self.progress.master = master
        self._set_state("running")

    def raise_if_stopped(self) -> None:
        """Raise Stopped if a stop was requested."""
        if self.stop.is_set():
            raise Stopped

    def follow_streams(self, queries: "Mapping[str, StreamingQuery]") -> None:
        """Wait until all queries have ended or a stop was requested; PipelineFailed if one has failed.

        After a stop request each query may finish its running batch. A batch that is interrupted is repeated by the
        next run.
        """
        followers = [StreamFollower(query, self.add_flow(name)) for name, query in queries.items()]
        self.mark_running()
        try:
            while any(follower.query.isActive for follower in followers):
                self._poll(followers)
                self._raise_failures(followers)
                if self.stop.wait(_POLL_SECONDS):
                    self._finish_batches(followers)
                    break
            self._poll(followers)
            self._raise_failures(followers)
        finally:
            for follower in followers:
                follower.query.stop()

    def run_job(self, spark: "SparkSession", job: Callable[[], R]) -> R:
        """Return the result of a batch job, run in a thread; a stop request cancels it and raises Stopped."""
        from pyspark import InheritableThread

        group = f"kerolox-{self.progress.name}-{now_millis()}"
        results: list[R] = []
        errors: list[BaseException] = []

        def body() -> None:
            activate(spark)
            spark.sparkContext.setJobGroup(group, self.progress.name, interruptOnCancel=True)
            try:
                results.append(job())
            except BaseException as error:
                errors.append(error)

        self.mark_running()
        thread = InheritableThread(target=body, name=group, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            self.report()
            if self.stop.is_set():
                spark.sparkContext.cancelJobGroup(group)
        if errors:
            if self.stop.is_set():
                raise Stopped from errors[0]
            raise to_pipeline_error(errors[0]) from errors[0]
        return results[0]

    def _poll(self, followers: list[StreamFollower]) -> None:
        changed = [follower.poll() for follower in followers]
        if any(changed):
            self.report()

    def _raise_failures(self, followers: list[StreamFollower]) -> None:
        for follower in followers:
            error = follower.query.exception()
            # Ctrl-C also reaches Spark's workers; errors after a stop request are not failures.
            if error is not None and not self.stop.wait(_POLL_SECONDS):
                raise PipelineFailed(f"{follower.flow.name}: {error_sentence(error)}") from error

    def _finish_batches(self, followers: list[StreamFollower]) -> None:
        """Wait until every running batch has finished, or GRACE_SECONDS have passed, and stop the queries."""
        deadline = time.monotonic() + GRACE_SECONDS
        for follower in followers:
            batch = follower.flow.batch
            while (
                follower.query.isActive
                and follower.query.status["isTriggerActive"]
                and follower.flow.batch == batch
                and time.monotonic() < deadline
                and not self.stop_now.wait(_POLL_SECONDS)
            ):
                self._poll(followers)
            follower.query.stop()

    def _set_state(self, state: State) -> None:
        self.progress.state = state
        self._report(is_urgent=True)

    def _report(self, *, is_urgent: bool) -> None:
        self._show(self.progress)
        self._file.write(self.progress, is_urgent=is_urgent)


def activate(spark: "SparkSession") -> None:
    """Make a session the active one of this thread: Spark looks up sink formats only in the active session."""
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def to_pipeline_error(error: BaseException) -> BaseException:
    """Convert an error of Spark to PipelineFailed; return others unchanged."""
    return PipelineFailed(error_sentence(error)) if isinstance(error, spark_errors()) else error


def spark_errors() -> tuple[type[BaseException], ...]:
    """Return the exception classes of Spark, in Python and from the JVM."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def error_sentence(error: BaseException) -> str:
    """Return the reason of an error in one sentence, without stack traces of Java and Python.

    If a Python worker of Spark failed, that is the last line of its traceback.
    """
    java = getattr(error, "java_exception", None)
    message = str(error) if java is None else f"{java.getMessage()}"
    for mark in ("JVM stacktrace:", "=== Streaming Query ===", "SQLSTATE"):
        message = message.partition(mark)[0]
    text = message.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _is_raised(line)]
    last = raised[-1] if raised and "Traceback" in text else lines[0] if lines else type(error).__name__
    return last[:_SENTENCE_MAX]


def _is_raised(line: str) -> bool:
    """Whether a line is the last one of a traceback: `package.SomeError: message`."""
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.replace(".", "_").isidentifier() and name.split(".")[-1][:1].isupper()
