"""The commands, run by spark-submit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from kerolox.spark.pipelines import submit
from tests.spark.clusters import Brokers
from tests.spark.conftest import environment

DECLARED = """
checkpoint = "state"
[source.orders]
topics = ["{topic}"]
options = {{ startingOffsets = "earliest" }}
[sink.archive]
from = "orders"
format = "parquet"
path = "out"
"""


def test_where_prints_the_path_of_the_application(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["submit", "--where"])

    submit.main()

    assert capsys.readouterr().out == f"{submit.__file__}\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_submit_runs_a_pipeline_on_its_master(cluster: Brokers, topic: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    cluster.fill(topic, 100)
    (tmp_path / "p.toml").write_text(DECLARED.format(topic=topic))
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    arguments = ["run", str(tmp_path / "p.toml"), "-n", cluster.namesrv_addr]
    ended = subprocess.run(
        [str(spark_submit), "--master", "local[1]", "--name", "mine", submit.__file__, *arguments],
        env={**environment(), "KEROLOX_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert '"master":"local[1]"' in (tmp_path / "home" / "pipelines" / "p.json").read_text()
    assert pq.read_table(tmp_path / "out").num_rows == 100
