"""What the source and the sink promise, on each release of Spark that is supported."""

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
# What releases before a certain one do instead.
BEFORE = {
    "filters handed to the source": ((4, 1), "read, and filtered by Spark"),
    "limits on what a batch of a stream reads": ((4, 2), "told to use 4.2"),
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
def test_each_release_of_spark_does_what_it_can(version: str, cluster: Brokers, tmp_path: Path, table: Table) -> None:
    environ = environment_of(version)
    kill_in_mid_batch(cluster, environ, tmp_path)

    arguments = (cluster.namesrv_addr, str(tmp_path / "cluster" / "broker-a"), str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.compat.spark_features", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=_DRIVER_SECONDS,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-5000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["version"] == version
    failed = [result for result in found["results"].values() if result.startswith("FAILED")]
    assert not failed, "\n".join(failed)
    for feature in FEATURES:
        with table.spark_cell(feature, version) as cell:
            cell.result = found["results"][feature]
            assert cell.result == expected(feature, version)


def kill_in_mid_batch(cluster: Brokers, environ: dict[str, str], directory: Path, *arguments: str) -> None:
    """Has a driver archive a topic, and kills it when it asks a broker for messages for the second time."""
    command = [sys.executable, "-m", "tests.spark.archiving", cluster.namesrv_addr, "orders", str(directory)]
    with subprocess.Popen([*command, *arguments], env=environ, start_new_session=True) as driver:
        wire = Tripwire(cluster, lambda: os.killpg(driver.pid, signal.SIGKILL), 2)
        code = driver.wait(_DRIVER_SECONDS)
    assert (code, wire.failure) == (-signal.SIGKILL, None)
