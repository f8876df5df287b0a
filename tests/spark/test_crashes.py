"""Exactly once: drivers, workers and brokers are killed during a batch, and every message is in the table once.

KEROLOX_SPARK_KILLS is the number of kills per test; `make chaos` sets it higher.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kerolox.store.queue.lookup import GetResult
from tests.crash.proofs import record_proof
from tests.spark.archiving import archive
from tests.spark.clusters import Brokers
from tests.spark.conftest import environment

KILLS = int(os.environ.get("KEROLOX_SPARK_KILLS", "1"))
LIMIT = 700
# Enough batches that messages are left after the last kill.
COUNT = LIMIT * (3 * KILLS + 2)
# The pull at which a driver or worker is killed. A batch has three pulls, so the first kill comes after a good batch.
PULLS = tuple(islice(cycle((5, 1, 2, 3)), KILLS))

pytestmark = pytest.mark.timeout(300 + 120 * KILLS)


class Tripwire:
    """Calls `action` in the middle of a batch: at the n-th pull of the topic."""

    def __init__(self, cluster: Brokers, action: Callable[[], None], nth: int) -> None:
        self._action = action
        self._left = nth
        self.is_sprung = threading.Event()
        self.failure: BaseException | None = None
        for broker in cluster.brokers.values():
            self._watch(broker.store.reader)

    def _spring(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self.failure = error
        self.is_sprung.set()

    def _watch(self, reader: object) -> None:
        get = reader.get  # type: ignore[attr-defined]

        def watched(*args: object, **keywords: object) -> GetResult:
            # The broker also reads its internal queues.
            self._left -= args[0] == "orders"
            if self._left == 0 and not self.is_sprung.is_set():
                self._spring()
            return get(*args, **keywords)  # type: ignore[no-any-return]

        reader.get = watched  # type: ignore[attr-defined]


@contextmanager
def _filled(directory: Path) -> Iterator[tuple[Brokers, list[str]]]:
    with Brokers(directory / "cluster") as cluster:
        cluster.create("orders", 3)
        bodies = cluster.fill("orders", COUNT, queues=3)
        yield cluster, sorted(body.decode() for body in bodies)


def _written(spark: SparkSession, directory: Path) -> list[str]:
    return sorted(row.body for row in spark.read.parquet(str(directory / "out")).select("body").collect())


def _drivers_until_done(cluster: Brokers, directory: Path) -> int:
    """Run drivers that are killed at one of their pulls, then one to its end; return the number of kills."""
    killed = 0
    for pulls in [*PULLS, None]:
        command = [sys.executable, "-m", "tests.spark.archiving", cluster.namesrv_addr, "orders", str(directory)]
        with subprocess.Popen(
            [*command, str(LIMIT)], env=environment(), start_new_session=True, stdout=subprocess.DEVNULL
        ) as driver:
            if pulls is not None:
                Tripwire(cluster, lambda pid=driver.pid: os.killpg(pid, signal.SIGKILL), pulls)  # type: ignore[misc]
            code = driver.wait()
        killed += code == -signal.SIGKILL
        if code == 0:
            return killed
        assert code == -signal.SIGKILL
    return killed


def test_killed_drivers_neither_lose_nor_duplicate_rows(spark: SparkSession, tmp_path: Path) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        assert _drivers_until_done(cluster, tmp_path) == KILLS

        assert _written(spark, tmp_path) == bodies
    record_proof("drivers killed", runs=KILLS, promised=COUNT)


def _workers() -> list[int]:
    """Return the worker processes of this test's Spark: those that its daemon has forked."""
    parents, daemons = {}, set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            parents[int(path.name)] = int((path / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        if b"pyspark.daemon" in command and b"pyspark.worker" in command:
            daemons.add(int(path.name))

    def is_ours(process_id: int) -> bool:
        while process_id in parents and process_id != os.getpid():
            process_id = parents[process_id]
        return process_id == os.getpid()

    return [process_id for process_id in daemons if parents[process_id] in daemons and is_ours(process_id)]


def _kill_workers() -> None:
    workers = _workers()
    assert workers
    for process_id in workers:
        os.kill(process_id, signal.SIGKILL)


def test_killed_workers_neither_lose_nor_duplicate_rows(spark: SparkSession, tmp_path: Path) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        for pulls in PULLS:
            wire = Tripwire(cluster, _kill_workers, pulls)
            with pytest.raises(PySparkException, match="crashed"):
                archive(spark, cluster.namesrv_addr, "orders", tmp_path, LIMIT)
            assert (wire.is_sprung.is_set(), wire.failure) == (True, None)
        archive(spark, cluster.namesrv_addr, "orders", tmp_path, LIMIT)

        assert _written(spark, tmp_path) == bodies
    record_proof("workers killed", runs=KILLS, promised=COUNT)


def _restarts_while_archiving(spark: SparkSession, cluster: Brokers, directory: Path) -> int:
    """Restart the broker at the second pull after each start; return the number of restarts."""
    restarts: list[threading.Thread] = []

    def restart() -> None:
        cluster.stop("broker-a")
        cluster.start("broker-a")
        if len(restarts) < KILLS:
            Tripwire(cluster, begin, 2)

    def begin() -> None:
        restarts.append(threading.Thread(target=restart))
        restarts[-1].start()

    Tripwire(cluster, begin, 2)
    archive(spark, cluster.namesrv_addr, "orders", directory, LIMIT)
    for thread in restarts:
        thread.join()
    return len(restarts)


def test_a_query_waits_for_a_broker_that_restarts_during_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        assert _restarts_while_archiving(spark, cluster, tmp_path) == KILLS

        assert _written(spark, tmp_path) == bodies
    record_proof("brokers restarted", runs=KILLS, promised=COUNT)
