"""The progress of a running pipeline, and the file that publishes it."""

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from kerolox.spark.read.offset_json import StreamPosition, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

State = Literal["starting", "running", "done", "stopped", "failed"]
WRITE_INTERVAL_SECONDS: Final = 1.0
# Name of the observation that counts bad rows: `observe(BAD_ROWS_OBSERVATION, ... .alias("bad"))`.
BAD_ROWS_OBSERVATION: Final = "kerolox"


class FlowProgress(msgspec.Struct, rename="camel"):
    """The progress of one sink."""

    name: str
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batch_millis: int = 0
    updated: int = 0
    # Number of bad rows; unset if the pipeline does not count them.
    bad: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def bad_count(self) -> int:
        return 0 if self.bad is msgspec.UNSET else self.bad


class PipelineProgress(msgspec.Struct, rename="camel"):
    """The content of the progress file. The dashboard reads it, so names and units must not change."""

    name: str
    file: str | None
    state: State
    pid: int
    master: str
    started: int
    updated: int
    error: str | None = None
    flows: list[FlowProgress] = []


@dataclass
class ProgressFile:
    """Writes progress atomically, at most once a second; without a path it does nothing."""

    path: Path | None
    _written: float = field(default=float("-inf"), init=False)
    # The thread of the run and its heartbeat thread both write.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def write(self, progress: PipelineProgress, *, is_urgent: bool = False) -> None:
        if self.path is None:
            return
        with self._lock:
            now = time.monotonic()
            if not is_urgent and now < self._written + WRITE_INTERVAL_SECONDS:
                return
            self._written = now
            progress.updated = now_millis()
            try:
                self._replace(self.path, msgspec.json.encode(progress))
            except OSError as error:
                # A pipeline must not fail because its progress cannot be written.
                log.warning("progress cannot be written to %s: %s", self.path, error)

    def _replace(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)


class StreamFollower:
    """Copies the progress of a streaming query to its flow."""

    def __init__(self, query: "StreamingQuery", flow: FlowProgress) -> None:
        self.query = query
        self.flow = flow

    def poll(self) -> bool:
        """Return whether there was a new batch."""
        before = self.flow.batch, self.flow.batch_millis
        for update in self.query.recentProgress:
            if update.batchId <= self.flow.batch:
                continue
            self.flow.rows += update.numInputRows
            # A trigger without new data reports the id of the next batch.
            if "addBatch" in update.durationMs:
                self.flow.batch = update.batchId
                self.flow.batch_millis = update.durationMs.get("triggerExecution", 0)
                self.flow.rows_per_second = _finite(update.processedRowsPerSecond)
                self.flow.updated = now_millis()
                observed = update.observedMetrics.get(BAD_ROWS_OBSERVATION)
                if observed is not None:
                    self.flow.bad = self.flow.bad_count + observed["bad"]
            self.flow.lag = lag_of(update.sources)
        return before != (self.flow.batch, self.flow.batch_millis)


def lag_of(sources: list[Any]) -> int | None:
    """Return the number of unread messages in all topics of a query; None if no source reports it."""
    lag = None
    for source in sources:
        with contextlib.suppress(ValueError, TypeError, AttributeError, msgspec.DecodeError):
            latest = from_json(msgspec.json.decode(source.latestOffset))
            reached = StreamPosition.from_json(msgspec.json.decode(source.endOffset)).offsets
            lag = (lag or 0) + sum(max(0, end - reached.get(queue, end)) for queue, end in latest.items())
    return lag


def _finite(rate: float | None) -> float:
    return 0.0 if rate is None or rate != rate or rate == float("inf") else float(rate)


def now_millis() -> int:
    return time.time_ns() // 1_000_000
