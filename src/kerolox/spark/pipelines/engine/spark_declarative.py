"""Runs a spec of Spark's declarative pipelines with Spark's own runner, and reports its progress."""

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
from kerolox.runtime.optional_deps import install_command
from kerolox.spark import prepare
from kerolox.spark.jvm import spark_version
from kerolox.spark.pipelines.engine.progress import FlowProgress, now_millis
from kerolox.spark.pipelines.engine.runner import PipelineFailed, Run
from kerolox.spark.pipelines.engine.session import check_installed

SUFFIXES: Final = (".yml", ".yaml")
_REQUIRED_MODULES: Final = ("grpc", "grpc_status", "google.rpc", "yaml", "pandas")
# An event that Spark's runner prints, such as: Flow spark_catalog.default.orders is RUNNING.
_EVENT: Final = re.compile(r"Flow '?([^\s']+)'? (?:is|has) ([A-Z_]+)")
_STARTED: Final = "RUNNING"
_STOP_SECONDS: Final = 30


def run_spec(spec: Path, run: Run, master: str | None = None, settings: Mapping[str, str] | None = None) -> None:
    """Run the spec to its end, or until `run` is stopped; PipelineFailed with the reason if Spark failed."""
    check_runnable()
    command = [*_command(master), "run", "--spec", str(spec.absolute())]
    environ = dict(os.environ)
    prepare(environ)
    environ["PYSPARK_SUBMIT_ARGS"] = _submit_arguments(spec, settings or {})
    if (master or "local").startswith("local"):
        environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    run.mark_running(master or "local[*]")
    with _process(command, environ, spec.absolute().parent) as process:
        output = list(_follow(process, run))
        code = process.wait()
    if run.stop.is_set():
        return
    if code != 0:
        raise PipelineFailed(f"{spec.name}: {reason_of(output)}")


def check_runnable() -> None:
    """ConfigurationError with the remedy if this Spark cannot run declarative pipelines."""
    check_installed()
    if spark_version() < (4, 1):
        raise ConfigurationError("declarative pipelines need Spark 4.1 or newer: pip install -U 'pyspark>=4.1'")
    for name in _REQUIRED_MODULES:
        try:
            is_installed = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            is_installed = False
        if not is_installed:
            raise ConfigurationError(f"declarative pipelines need {name}: {install_command('pipelines')}")


def _command(master: str | None) -> list[str]:
    import pyspark

    runner = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    # The runner starts a Spark Connect server on the master given as --remote.
    return [str(runner), *(["--remote", master] if master else [])]


def _submit_arguments(spec: Path, settings: Mapping[str, str]) -> str:
    """Return PYSPARK_SUBMIT_ARGS for the server: the runner itself passes on only the last --conf."""
    state = spec.absolute().parent / ".spark-pipeline"
    conf = {
        # Only Hive's catalog keeps the tables from one run to the next.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(state / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={state / 'metastore'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={state / 'derby.log'}",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }
    flags = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return shlex.join([*flags, "pyspark-shell"])


@contextlib.contextmanager
def _process(command: list[str], environ: dict[str, str], folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """Yield Spark's runner; on exit it is ended with all its child processes."""
    # In its own process session, so that Ctrl-C reaches only us, and we end it in order.
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


def _follow(process: "subprocess.Popen[str]", run: Run) -> Iterator[str]:
    """Yield the output lines of Spark's runner, copied to stderr, until it ends or `run` is stopped."""
    assert process.stdout is not None
    done = threading.Event()

    def end_when_stopped() -> None:
        while not done.wait(0.2):
            if run.stop.is_set():
                _end(process)
                return

    watcher = threading.Thread(target=end_when_stopped, name="stop of a spec", daemon=True)
    watcher.start()
    flows: dict[str, FlowProgress] = {}
    try:
        for line in process.stdout:
            sys.stderr.write(line)
            found = _EVENT.search(line)
            if found is not None:
                _update(run, flows, found[1], found[2])
            yield line
    finally:
        done.set()
        watcher.join()


def _update(run: Run, flows: dict[str, FlowProgress], name: str, state: str) -> None:
    flow = flows.get(name) or flows.setdefault(name, run.add_flow(name))
    if state == _STARTED:
        flow.batch += 1
    flow.updated = now_millis()
    run.report()


def reason_of(lines: list[str]) -> str:
    """Return the last line that looks like an error."""
    errors = [line.strip() for line in lines if re.search(r"Exception|Error|FAILED|\[[A-Z_.]+\]", line)]
    return errors[-1][:600] if errors else "Spark's runner failed; see its output"
