"""Topics archived to Delta tables: each row occurs once, although drivers are killed and batches repeated.

Each release of Delta supports certain releases of Spark (`DELTAS`), not yet the installed one.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apache.maven import MavenError, resolved
from tests.apache.requirements import require_java, unmet
from tests.compat.sparks import environment_of, line_of
from tests.compat.table import Table
from tests.compat.test_spark_versions import kill_in_mid_batch
from tests.spark.clusters import Brokers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

COUNT = 600
# Release of Spark → release of Delta.
DELTAS = {"4.0.5": "4.4.0", "4.1.4": "4.4.0", "4.2.1": "4.4.0"}
FEATURE = "a Delta table after a kill and a repeated batch: each row once"
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kerolox.test</groupId>
  <artifactId>delta</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>io.delta</groupId>
      <artifactId>delta-spark_{line}_2.13</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""
_DRIVER_SECONDS = 900.0


def jars(spark: str, delta: str) -> str:
    """Return the comma-separated jars of Delta; Spark contains their dependencies."""
    require_java()
    line = ".".join(map(str, line_of(spark)))
    try:
        found = resolved(_POM.format(line=line, version=delta), f"delta/{delta}-{line}")
    except MavenError as error:
        unmet(f"Delta {delta} for Spark {line} is not available: {error}")
    return ",".join(jar for jar in found.split(os.pathsep) if Path(jar).name.startswith("delta-"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path / "cluster") as cluster:
        cluster.create("orders")
        cluster.fill("orders", COUNT)
        yield cluster


@pytest.mark.parametrize(("spark", "delta"), DELTAS.items())
def test_each_message_is_in_a_delta_table_once_after_a_kill_and_a_repeated_batch(
    spark: str, delta: str, cluster: Brokers, tmp_path: Path, table: Table
) -> None:
    settings = [part for key, value in _SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    submitted = shlex.join(["--jars", jars(spark, delta), *settings, "pyspark-shell"])
    environ = {**environment_of(spark), "PYSPARK_SUBMIT_ARGS": submitted}

    with table.spark_cell(FEATURE, spark) as cell:
        kill_in_mid_batch(cluster, environ, tmp_path, "--kind", "delta")
        command = [sys.executable, "-m", "tests.compat.delta_table", cluster.namesrv_addr, "orders", str(tmp_path)]
        completed = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=_DRIVER_SECONDS, check=False
        )

        assert completed.returncode == 0, completed.stderr[-5000:]
        found = json.loads(completed.stdout.splitlines()[-1])
        assert found["once"] == [f"{number:06d}" for number in range(COUNT)]
        assert found["again"] == found["once"]
        cell.result = f"ok (Delta {delta})"
