"""`kerolox pipeline`, as people run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerolox.cli.app import main
from kerolox.client import Message
from kerolox.client.sync import Producer
from kerolox.testing.plugin import RunningCluster
from tests.spark.conftest import environment

ENDLESS = """
checkpoint = "state"
trigger = "200 milliseconds"
[source.orders]
topics = ["orders"]
options = { startingOffsets = "earliest" }
[sink.archive]
from = "orders"
format = "parquet"
path = "out"
"""


def progress_of(home: Path, name: str) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads((home / "pipelines" / f"{name}.json").read_text())
    except OSError:
        return {}
    return found


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_pipeline_well_and_its_rows_are_there(running: RunningCluster, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal, Spark's as well."""
    import pyarrow.parquet as pq

    with Producer("tests", namesrv_addr=running.namesrv_addr) as producer:
        producer.send([Message("orders", b"%d" % number) for number in range(100)])
    file = tmp_path / "endless.toml"
    file.write_text(ENDLESS)
    command = [sys.executable, "-m", "kerolox.spark.pipelines.submit", "run", str(file), "-n", running.namesrv_addr]
    with subprocess.Popen(
        [*command, "--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1"],
        env={**environment(), "KEROLOX_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            until(lambda: _rows(progress_of(tmp_path / "home", "endless")) == 100, process)
            running_progress = progress_of(tmp_path / "home", "endless")
            os.killpg(process.pid, signal.SIGINT)
            _, told = process.communicate(timeout=240)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, "Traceback" in told) == (0, False), told
    assert "endless: archive batch 0, 100 rows" in told
    assert running_progress["state"] == "running"
    found = progress_of(tmp_path / "home", "endless")
    assert (found["state"], found["file"], found["master"]) == ("stopped", str(file), "local[2]")
    assert sorted(int(body) for body in pq.read_table(tmp_path / "out")["body"].to_pylist()) == list(range(100))


def _rows(progress: dict[str, object]) -> int:
    flows = progress.get("flows") or []
    assert isinstance(flows, list)
    return sum(flow["rows"] for flow in flows)


def test_a_file_that_is_wrong_is_told_of_before_spark_is_started(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(ENDLESS + "partitionby = 'day'\n")

    result = CliRunner().invoke(main, ["pipeline", "run", str(file), "-n", "a:1"])

    assert (result.exit_code, result.stderr) == (
        1,
        "Error: sink.archive.partitionby is unknown in sink.archive: is partitionBy meant?\n",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "TOPIC"], "--set 'TOPIC': expected NAME=VALUE"),
        ([], "nameServer is missing"),
    ],
)
def test_flags_that_are_wrong_are_told_of(tmp_path: Path, arguments: list[str], told: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(ENDLESS)

    result = CliRunner(env={"NAMESRV_ADDR": None}).invoke(main, ["pipeline", "run", str(file), *arguments])

    assert result.exit_code != 0
    assert told in result.stderr


def test_help_needs_no_spark() -> None:
    """Who reads it may not have installed that yet."""
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from kerolox.cli.app import main\n"
        "main(['pipeline', '--help'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "run " in ended.stdout
