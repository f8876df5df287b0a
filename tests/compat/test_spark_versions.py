"""Features of the data source and sink on each supported release of Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.spark_features import COUNT, FEATURES, OK
from tests.compat.sparks import SPARKS, environment_of, line_of
from tests.compat.table import Table
from tests.spark.clusters import Brokers
from tests.spark.test_crashes import Tripwire

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

TOPICS = ("orders", "growing", "values", "written", "copies", "twice")
# Feature → first release that has it, and the result of earlier releases.
BEFORE = {
    "filter pushdown to the source": ((4, 1), "read, and filtered by Spark"),
    "limit on the rows of a stream's batch": ((4, 2), "refused: needs Spark 4.2"),
}
_DRIVER_SECONDS = 1500.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path / "cluster") as cluster:
        for topic in TOPICS:
            cluster.create(topic)
        for topic in ("orders", "growing"):
            cluster.fill(topic, COUNT)
        yield cluster


def expected(feature: str, version: str) -> str:
    since, instead = BEFORE.get(feature, ((0, 0), ""))
    return OK if line_of(version) >= since else instead


@pytest.mark.parametrize("version", SPARKS)
def test_each_release_of_spark_has_its_features(version: str, cluster: Brokers, tmp_path: Path, table: Table) -> None:
    environ = environment_of(version)
    kill_in_mid_batch(cluster, environ, tmp_path)

    arguments = (cluster.namesrv_addr, str(tmp_path / "cluster" / "broker-a"), str(tmp_path))
    completed = subprocess.run(
        [sys.executable, "-m", "tests.compat.spark_features", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=_DRIVER_SECONDS,
        check=False,
    )

    assert completed.returncode == 0, completed.stderr[-5000:]
    found = json.loads(completed.stdout.splitlines()[-1])
    assert found["version"] == version
    failed = [result for result in found["results"].values() if result.startswith("FAILED")]
    assert not failed, "\n".join(failed)
    for feature in FEATURES:
        with table.spark_cell(feature, version) as cell:
            cell.result = found["results"][feature]
            assert cell.result == expected(feature, version)


def kill_in_mid_batch(cluster: Brokers, environ: dict[str, str], directory: Path, *arguments: str) -> None:
    """Start a driver that archives a topic, and kills it at its second pull."""
    command = [sys.executable, "-m", "tests.spark.archiving", cluster.namesrv_addr, "orders", str(directory)]
    with subprocess.Popen([*command, *arguments], env=environ, start_new_session=True) as driver:
        wire = Tripwire(cluster, lambda: os.killpg(driver.pid, signal.SIGKILL), 2)
        code = driver.wait(_DRIVER_SECONDS)
    assert (code, wire.failure) == (-signal.SIGKILL, None)
