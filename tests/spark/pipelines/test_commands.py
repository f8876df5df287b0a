"""Ready-made pipelines as commands, on the session of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kerolox.cli.app import main
from kerolox.spark.pipelines.archive import read_archive
from kerolox.spark.pipelines.engine import session
from tests.spark.clusters import Brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READY_MADE = ("aggregate", "archive", "audit", "dead-letters", "replay", "trace")


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CliRunner:
    """Run commands with the existing session, which is not stopped."""

    @contextmanager
    def shared(*args: Any) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(session, "session", shared)
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    return CliRunner()


def test_a_command_calls_its_function_and_prints_the_result(
    spark: SparkSession, cluster: Brokers, topic: str, tmp_path: Path, command: CliRunner
) -> None:
    cluster.fill(topic, 30)
    output = str(tmp_path / "archive")
    arguments = ["pipeline", "archive", "-n", cluster.namesrv_addr, "--topic", topic, "--output", output]

    more = ["--batch-max", "20", "--json", "--name", "my/archive", "--option", "failOnDataLoss=false"]
    first = command.invoke(main, [*arguments, *more])
    second = command.invoke(main, arguments)

    assert first.exit_code == second.exit_code == 0, first.output + second.output
    assert json.loads(first.stdout)["rows"] == 30
    assert "my/archive: archive batch 0, " in first.stderr
    assert second.stdout.splitlines()[0] == "rows\tbatches\tcompacted"
    assert second.stdout.splitlines()[1].startswith("0\t")
    assert read_archive(spark, output).count() == 30
    assert json.loads((tmp_path / "home" / "pipelines" / "my_archive.json").read_text())["state"] == "done"


def test_a_table_is_printed_row_by_row(cluster: Brokers, topic: str, command: CliRunner) -> None:
    cluster.fill(topic, 5)

    result = command.invoke(main, ["pipeline", "audit", "-n", cluster.namesrv_addr, "--since", "0", "--topic", topic])

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "topic\tgroup\tproduced\tstored\tconsumed\twaiting\tlost\tduplicated",
        f"{topic}\t-\t-\t5\t-\t-\t-\t0",
    ]


# Never written to.
OUTPUT = "written"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["archive", "--output", OUTPUT], "topic and pattern are both missing: give one of them"),
        (["dead-letters", "--output", OUTPUT, "--again"], "again has no meaning without resend"),
        (["audit", "--since", "noon"], "since is 'noon': give 2026-01-31T12:00:00"),
        (["archive", "--topic", "x", "--output", OUTPUT, "--trigger", "soon"], "trigger is 'soon': give availableNow"),
        (
            ["replay", "--input", "x", "--checkpoint", "y", "--rate", "0"],
            "rate is 0: give a number of messages per second",
        ),
        (["trace", "--conf", "x"], "--conf 'x': expected NAME=VALUE"),
        (["archive", "--topic", "x", "--output", OUTPUT, "--option", "a"], "option is 'a': give KEY=VALUE"),
        (["archive", "--topic", "x", "--output", OUTPUT, "--option", "minPartition=3"], "is minPartitions meant?"),
        (["archive", "--topic", "x", "--output", OUTPUT, "--tls-ca", "no.pem"], "cannot be loaded on this machine"),
        (["archive", "--topic", "x", "--output", OUTPUT, "-n", "127.0.0.1:1"], "is it running?"),
        (["replay", "--input", "x"], "Missing option '--checkpoint'"),
    ],
)
def test_errors_are_reported_in_one_sentence(
    command: CliRunner, tmp_path: Path, arguments: list[str], message: str
) -> None:
    # Spark has started some of them when it reports the error.
    output = str(tmp_path / OUTPUT)

    result = command.invoke(main, ["pipeline", *(output if each is OUTPUT else each for each in arguments)])

    assert result.exit_code != 0
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert "kerolox." not in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("flags", [["--namesrv", "127.0.0.1:1"], ["--set", "a=b"]])
def test_options_that_a_spark_spec_cannot_use_are_refused(command: CliRunner, tmp_path: Path, flags: list[str]) -> None:
    (tmp_path / "spec.yml").write_text("name: x")

    result = command.invoke(main, ["pipeline", "run", str(tmp_path / "spec.yml"), *flags])

    assert result.exit_code == 2
    assert f"{flags[0]} is for TOML" in result.stderr


@pytest.mark.parametrize("name", READY_MADE)
def test_help_lists_all_options_and_has_examples(name: str) -> None:
    printed = CliRunner().invoke(main, ["pipeline", name, "--help"], terminal_width=200).output

    assert f"kerolox pipeline {name} " in printed
    shared = ("--namesrv", "--tls-ca", "--option", "--master", "--conf", "--json", "--name")
    assert all(flag in printed for flag in shared)
