"""`kerolox pipeline` as a user runs it."""

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
def test_ctrl_c_stops_a_pipeline_cleanly_with_its_rows_written(running: RunningCluster, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal, including Spark's."""
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
            _, log = process.communicate(timeout=240)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, "Traceback" in log) == (0, False), log
    assert "endless: archive batch 0, 100 rows" in log
    assert running_progress["state"] == "running"
    found = progress_of(tmp_path / "home", "endless")
    assert (found["state"], found["file"], found["master"]) == ("stopped", str(file), "local[2]")
    assert sorted(int(body) for body in pq.read_table(tmp_path / "out")["body"].to_pylist()) == list(range(100))


def _rows(progress: dict[str, object]) -> int:
    flows = progress.get("flows") or []
    assert isinstance(flows, list)
    return sum(flow["rows"] for flow in flows)


def test_an_invalid_file_is_reported_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(ENDLESS + "partitionby = 'day'\n")

    result = CliRunner().invoke(main, ["pipeline", "run", str(file), "-n", "a:1"])

    assert (result.exit_code, result.stderr) == (
        1,
        "Error: sink.archive.partitionby is unknown in sink.archive: is partitionBy meant?\n",
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--set", "TOPIC"], "--set 'TOPIC': expected NAME=VALUE"),
        ([], "nameServer is missing"),
    ],
)
def test_invalid_flags_are_reported(tmp_path: Path, arguments: list[str], error: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(ENDLESS)

    result = CliRunner(env={"NAMESRV_ADDR": None}).invoke(main, ["pipeline", "run", str(file), *arguments])

    assert result.exit_code != 0
    assert error in result.stderr


def test_help_needs_no_spark() -> None:
    """A reader of the help may not have installed Spark yet."""
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from kerolox.cli.app import main\n"
        "main(['pipeline', '--help'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (result.returncode, result.stderr) == (0, "")
    assert "run " in result.stdout
