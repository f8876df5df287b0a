"""Exactly once: drivers, workers and brokers end in mid-batch, and every message is in the table once.

KEROLOX_SPARK_KILLS says how often each of them does; `make chaos` sets it higher.
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

from kerolox.store.queue.pull import Got
from tests.crash.proofs import noted
from tests.spark.archiving import archive
from tests.spark.clusters import Brokers
from tests.spark.conftest import environment

KILLS = int(os.environ.get("KEROLOX_SPARK_KILLS", "1"))
LIMIT = 700
# Enough batches that something is left to be read when the last of them has been killed.
COUNT = LIMIT * (3 * KILLS + 2)
# At which pull of its life a driver or worker is killed. A batch has three: once all goes well for a while first.
PULLS = tuple(islice(cycle((5, 1, 2, 3)), KILLS))

pytestmark = pytest.mark.timeout(300 + 120 * KILLS)


class Tripwire:
    """Does something in the middle of a batch: when a broker is asked for the n-th time for messages."""

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

        def watched(*args: object, **keywords: object) -> Got:
            # The broker reads queues of its own, too.
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
    """Runs drivers, each of which is killed at one of its pulls, and then one that may end; returns how many were."""
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


def test_drivers_killed_in_mid_batch_are_followed_by_one_that_makes_no_difference(
    spark: SparkSession, tmp_path: Path
) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        assert _drivers_until_done(cluster, tmp_path) == KILLS

        assert _written(spark, tmp_path) == bodies
    noted("drivers killed", runs=KILLS, promised=COUNT)


def _workers() -> list[int]:
    """Returns the processes in which this test's Spark runs tasks: those that its daemon has forked."""
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


def test_what_workers_read_before_they_were_killed_is_in_the_table_once(spark: SparkSession, tmp_path: Path) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        for pulls in PULLS:
            wire = Tripwire(cluster, _kill_workers, pulls)
            with pytest.raises(PySparkException, match="crashed"):
                archive(spark, cluster.namesrv_addr, "orders", tmp_path, LIMIT)
            assert (wire.is_sprung.is_set(), wire.failure) == (True, None)
        archive(spark, cluster.namesrv_addr, "orders", tmp_path, LIMIT)

        assert _written(spark, tmp_path) == bodies
    noted("workers killed", runs=KILLS, promised=COUNT)


def _restarts_while_archiving(spark: SparkSession, cluster: Brokers, directory: Path) -> int:
    """Restarts the broker at the second pull of each of its lives; returns how often."""
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


def test_a_broker_restarted_in_mid_batch_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with _filled(tmp_path) as (cluster, bodies):
        assert _restarts_while_archiving(spark, cluster, tmp_path) == KILLS

        assert _written(spark, tmp_path) == bodies
    noted("brokers restarted", runs=KILLS, promised=COUNT)
