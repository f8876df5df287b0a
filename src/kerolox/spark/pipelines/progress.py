"""How far a running pipeline is, and the file that tells others."""

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from kerolox.spark.offsets import Place, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

State = Literal["starting", "running", "done", "stopped", "failed"]
SECONDS_BETWEEN_WRITES: Final = 1.0
# Under this name a query tells how many rows of a batch are bad: `observe(OBSERVED, ... .alias("bad"))`.
OBSERVED: Final = "kerolox"


class FlowProgress(msgspec.Struct, rename="camel"):
    """How far what goes into one sink is."""

    name: str
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batch_millis: int = 0
    updated: int = 0
    # Rows that were kept aside; not there where nobody counts them.
    bad: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def bad_count(self) -> int:
        return 0 if self.bad is msgspec.UNSET else self.bad


class PipelineProgress(msgspec.Struct, rename="camel"):
    """What is in the file; others read it, so that names and units are agreed upon."""

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
    """Writes progress at most once a second, whole or not at all; without a path it writes nothing."""

    path: Path | None
    _written: float = field(default=float("-inf"), init=False)
    # A run writes from the thread that looks after it, and from one that says that it is alive.
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def write(self, progress: PipelineProgress, *, is_urgent: bool = False) -> None:
        if self.path is None:
            return
        with self._turn:
            now = time.monotonic()
            if not is_urgent and now < self._written + SECONDS_BETWEEN_WRITES:
                return
            self._written = now
            progress.updated = millis()
            try:
                self._replace(self.path, msgspec.json.encode(progress))
            except OSError as error:
                # A pipeline does not end because nobody can look at it.
                log.warning("progress cannot be written to %s: %s", self.path, error)

    def _replace(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(path)


class StreamFollower:
    """Takes over what a query tells of its batches."""

    def __init__(self, query: "StreamingQuery", flow: FlowProgress) -> None:
        self.query = query
        self.flow = flow

    def look(self) -> bool:
        """Returns whether there was something new."""
        before = self.flow.batch, self.flow.batch_millis
        for told in self.query.recentProgress:
            if told.batchId <= self.flow.batch:
                continue
            self.flow.rows += told.numInputRows
            # A trigger that found nothing tells of a batch that is still to come.
            if "addBatch" in told.durationMs:
                self.flow.batch = told.batchId
                self.flow.batch_millis = told.durationMs.get("triggerExecution", 0)
                self.flow.rows_per_second = _finite(told.processedRowsPerSecond)
                self.flow.updated = millis()
                observed = told.observedMetrics.get(OBSERVED)
                if observed is not None:
                    self.flow.bad = self.flow.bad_count + observed["bad"]
            self.flow.lag = lag_of(told.sources)
        return before != (self.flow.batch, self.flow.batch_millis)


def lag_of(sources: list[Any]) -> int | None:
    """Returns how many messages wait for a query in all its topics; None if it reads none that can tell."""
    lag = None
    for source in sources:
        with contextlib.suppress(ValueError, TypeError, AttributeError, msgspec.DecodeError):
            latest = from_json(msgspec.json.decode(source.latestOffset))
            reached = Place.from_json(msgspec.json.decode(source.endOffset)).offsets
            lag = (lag or 0) + sum(max(0, end - reached.get(queue, end)) for queue, end in latest.items())
    return lag


def _finite(rate: float | None) -> float:
    return 0.0 if rate is None or rate != rate or rate == float("inf") else float(rate)


def millis() -> int:
    return time.time_ns() // 1_000_000
