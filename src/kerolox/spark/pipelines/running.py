"""Runs what a pipeline has begun until it is done, fails or is told to stop, and tells how far it is."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from kerolox.errors import KeroloxError
from kerolox.spark.pipelines.progress import (
    SECONDS_BETWEEN_WRITES,
    FlowProgress,
    PipelineProgress,
    ProgressFile,
    State,
    StreamFollower,
    millis,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

R = TypeVar("R")

_LOOK_SECONDS: Final = 0.2
# A batch that is under way when a pipeline is told to stop may take so long to end.
GRACE_SECONDS: Final = 30.0
_SENTENCE_MAX: Final = 600


class PipelineFailed(KeroloxError):
    """Spark gave up; the message is its reason in one sentence."""


class Stopped(Exception):
    """Somebody said stop, and what was under way is given up."""


class Run:
    """A run of a pipeline: `with Run("orders") as run: run.streams({...})`.

    `stop` may be set by a signal; `hurry` by the second one. What is shown of it is up to `show`, which gets its
    progress whenever that has changed. Without a folder no file is written.
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
            started=millis(),
            updated=millis(),
        )
        self.stop = threading.Event()
        self.hurry = threading.Event()
        self._show = show
        # What is a path in a name is none here.
        file_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        self._file = ProgressFile(None if folder is None else folder / f"{file_name}.json")
        self._is_over = threading.Event()
        self._beating = threading.Thread(target=self._beat, name=f"progress of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._tell(is_urgent=True)
        self._beating.start()
        return self

    def _beat(self) -> None:
        """Says that the run is alive, even while nothing happens: who is silent for long is taken for dead."""
        while not self._is_over.wait(SECONDS_BETWEEN_WRITES):
            self._file.write(self.progress)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """A stop that was asked for is no failure."""
        self._is_over.set()
        self._beating.join()
        is_stop = isinstance(error, Stopped)
        if error is not None and not is_stop:
            self.progress.error = sentence(error)
        state: State = "stopped" if is_stop or self.stop.is_set() else "done"
        self._enter("failed" if self.progress.error else state)
        return is_stop

    def take_signals(self) -> None:
        """Has Ctrl-C and SIGTERM stop this run from now on, a second one at once; only in a main thread."""

        def handle(number: int, frame: object) -> None:
            (self.hurry if self.stop.is_set() else self.stop).set()

        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, handle)

    @property
    def was_stopped(self) -> bool:
        return self.progress.state == "stopped"

    def flow(self, name: str) -> FlowProgress:
        """Returns what tells of one flow, to be filled by whoever runs it."""
        flow = FlowProgress(name)
        self.progress.flows.append(flow)
        return flow

    def tell(self) -> None:
        """Says that progress has changed."""
        self._show(self.progress)
        self._file.write(self.progress)

    def running(self, master: str | None = None) -> None:
        if master is not None:
            self.progress.master = master
        self._enter("running")

    def check(self) -> None:
        """Raises Stopped if that was asked for."""
        if self.stop.is_set():
            raise Stopped

    def streams(self, queries: "Mapping[str, StreamingQuery]") -> None:
        """Returns when all have ended by themselves, or are stopped; PipelineFailed if one has failed.

        When told to stop, each may finish the batch that is under way; what is given up after that is repeated when the
        pipeline is run again.
        """
        followers = [StreamFollower(query, self.flow(name)) for name, query in queries.items()]
        self.running()
        try:
            while any(follower.query.isActive for follower in followers):
                self._look(followers)
                self._check(followers)
                if self.stop.wait(_LOOK_SECONDS):
                    self._wind_up(followers)
                    break
            self._look(followers)
            self._check(followers)
        finally:
            for follower in followers:
                follower.query.stop()

    def work(self, spark: "SparkSession", work: Callable[[], R]) -> R:
        """Returns what a piece of work in batches gives; Stopped if it was told to stop meanwhile."""
        from pyspark import InheritableThread

        group = f"kerolox-{self.progress.name}-{millis()}"
        results: list[R] = []
        errors: list[BaseException] = []

        def body() -> None:
            activate(spark)
            spark.sparkContext.setJobGroup(group, self.progress.name, interruptOnCancel=True)
            try:
                results.append(work())
            except BaseException as error:
                errors.append(error)

        self.running()
        thread = InheritableThread(target=body, name=group, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            self.tell()
            if self.stop.is_set():
                spark.sparkContext.cancelJobGroup(group)
        if errors:
            if self.stop.is_set():
                raise Stopped from errors[0]
            raise failure(errors[0]) from errors[0]
        return results[0]

    def _look(self, followers: list[StreamFollower]) -> None:
        changed = [follower.look() for follower in followers]
        if any(changed):
            self.tell()

    def _check(self, followers: list[StreamFollower]) -> None:
        for follower in followers:
            error = follower.query.exception()
            # Ctrl-C reaches Spark's workers as well, and what they fail of then is no failure.
            if error is not None and not self.stop.wait(_LOOK_SECONDS):
                raise PipelineFailed(f"{follower.flow.name}: {sentence(error)}") from error

    def _wind_up(self, followers: list[StreamFollower]) -> None:
        """Returns when every batch that was under way has ended, or has had its time."""
        deadline = time.monotonic() + GRACE_SECONDS
        for follower in followers:
            batch = follower.flow.batch
            while (
                follower.query.isActive
                and follower.query.status["isTriggerActive"]
                and follower.flow.batch == batch
                and time.monotonic() < deadline
                and not self.hurry.wait(_LOOK_SECONDS)
            ):
                self._look(followers)
            follower.query.stop()

    def _enter(self, state: State) -> None:
        self.progress.state = state
        self._tell(is_urgent=True)

    def _tell(self, *, is_urgent: bool) -> None:
        self._show(self.progress)
        self._file.write(self.progress, is_urgent=is_urgent)


def activate(spark: "SparkSession") -> None:
    """Makes a session the one of this thread: Spark looks for formats to write in that, and in no other."""
    spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)


def failure(error: BaseException) -> BaseException:
    """Returns what is told of an error: Spark's in a sentence, all others as they are."""
    return PipelineFailed(sentence(error)) if isinstance(error, spark_errors()) else error


def spark_errors() -> tuple[type[BaseException], ...]:
    """What Spark raises; some of it as Java has it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def sentence(error: BaseException) -> str:
    """Returns what went wrong, in one sentence without the traces of Java and Python.

    Where a worker of Spark's has failed, that is what the last line of its traceback says.
    """
    java = getattr(error, "java_exception", None)
    told = str(error) if java is None else f"{java.getMessage()}"
    for mark in ("JVM stacktrace:", "=== Streaming Query ===", "SQLSTATE"):
        told = told.partition(mark)[0]
    text = told.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _is_raised(line)]
    last = raised[-1] if raised and "Traceback" in text else lines[0] if lines else type(error).__name__
    return last[:_SENTENCE_MAX]


def _is_raised(line: str) -> bool:
    """Whether a line is the last of a traceback: `package.SomeError: what it says`."""
    name, colon, _ = line.partition(": ")
    return bool(colon) and name.replace(".", "_").isidentifier() and name.split(".")[-1][:1].isupper()
