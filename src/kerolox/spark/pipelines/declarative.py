"""Hands a spec of Spark's declarative pipelines to Spark's own runner, and follows what that tells."""

import contextlib
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kerolox.errors import ConfigurationError
from kerolox.runtime.extras import installing
from kerolox.spark import prepare
from kerolox.spark.java import spark_version
from kerolox.spark.pipelines.progress import FlowProgress, millis
from kerolox.spark.pipelines.running import PipelineFailed, Run
from kerolox.spark.pipelines.session import check_installed

SUFFIXES: Final = (".yml", ".yaml")
_NEEDED: Final = ("grpc", "grpc_status", "google.rpc", "yaml", "pandas")
# What Spark's runner tells of a flow, such as: Flow spark_catalog.default.orders is RUNNING.
_EVENT: Final = re.compile(r"Flow '?([^\s']+)'? (?:is|has) ([A-Z_]+)")
_STARTED: Final = "RUNNING"
_STOP_SECONDS: Final = 30


def run_spec(spec: Path, run: Run, master: str | None = None, settings: Mapping[str, str] | None = None) -> None:
    """Returns when Spark has run the spec; PipelineFailed with the reason if it has not."""
    check_runnable()
    command = [*_command(master), "run", "--spec", str(spec.absolute())]
    environ = dict(os.environ)
    prepare(environ)
    environ["PYSPARK_SUBMIT_ARGS"] = _submit_arguments(spec, settings or {})
    if (master or "local").startswith("local"):
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    run.running(master or "local[*]")
    with _process(command, environ, spec.absolute().parent) as process:
        told = list(_followed(process, run))
        code = process.wait()
    if run.stop.is_set():
        return
    if code != 0:
        raise PipelineFailed(f"{spec.name}: {reason_of(told)}")


def check_runnable() -> None:
    """ConfigurationError with the remedy if this Spark cannot run such specs."""
    check_installed()
    if spark_version() < (4, 1):
        raise ConfigurationError("declarative pipelines need Spark 4.1 or newer: pip install -U 'pyspark>=4.1'")
    for name in _NEEDED:
        try:
            is_there = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            is_there = False
        if not is_there:
            raise ConfigurationError(f"declarative pipelines need {name}: {installing('pipelines')}")


def _command(master: str | None) -> list[str]:
    import pyspark

    runner = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    # It wants a Connect server, and starts one on any master that it is given in this place.
    return [str(runner), *(["--remote", master] if master else [])]


def _submit_arguments(spec: Path, settings: Mapping[str, str]) -> str:
    """Returns what the server is started with: of what the runner is told by --conf it passes on the last only."""
    state = spec.absolute().parent / ".spark-pipeline"
    kept = {
        # Spark remembers which tables there are from one run to the next only with Hive's catalog.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(state / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={state / 'metastore'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={state / 'derby.log'}",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    flags = [part for key, value in kept.items() for part in ("--conf", f"{key}={value}")]
    return shlex.join([*flags, "pyspark-shell"])


@contextlib.contextmanager
def _process(command: list[str], environ: dict[str, str], folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """Yields Spark's runner; it is gone afterwards, with all that it has started."""
    # In a session of its own, so that Ctrl-C reaches us alone and we say when it ends.
    process = subprocess.Popen(  # noqa: S603
        command,
        env=environ,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        assert process.stdout is not None
        process.stdout.close()


def _end(process: "subprocess.Popen[str]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if number is signal.SIGTERM:
            continue
        return


def _followed(process: "subprocess.Popen[str]", run: Run) -> Iterator[str]:
    """Yields the lines that Spark's runner prints, which are passed on, until it ends or is told to."""
    assert process.stdout is not None
    done = threading.Event()

    def stop() -> None:
        while not done.wait(0.2):
            if run.stop.is_set():
                _end(process)
                return

    watcher = threading.Thread(target=stop, name="stop of a spec", daemon=True)
    watcher.start()
    flows: dict[str, FlowProgress] = {}
    try:
        for line in process.stdout:
            sys.stderr.write(line)
            found = _EVENT.search(line)
            if found is not None:
                _note(run, flows, found[1], found[2])
            yield line
    finally:
        done.set()
        watcher.join()


def _note(run: Run, flows: dict[str, FlowProgress], name: str, state: str) -> None:
    flow = flows.get(name) or flows.setdefault(name, run.flow(name))
    if state == _STARTED:
        flow.batch += 1
    flow.updated = millis()
    run.tell()


def reason_of(lines: list[str]) -> str:
    """Returns the last line that tells of an error."""
    told = [line.strip() for line in lines if re.search(r"Exception|Error|FAILED|\[[A-Z_.]+\]", line)]
    return told[-1][:600] if told else "Spark's runner has failed, and what it printed says why"
