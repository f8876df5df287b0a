"""The Spark session of a pipeline command."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerolox.errors import ConfigurationError
from kerolox.runtime.optional_deps import install_command
from kerolox.spark import prepare, register
from kerolox.spark.pipelines.engine.runner import Run

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# Set by spark-submit, which has already chosen the master.
_GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"

# Must be set before the JVM starts: PySpark's launcher turns it on by default.
_PROGRESS_BARS: Final = "spark.ui.showConsoleProgress"

_SETTINGS: Final = {
    # So that days are the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    _PROGRESS_BARS: "false",
}
_LOCAL_SETTINGS: Final = {
    # On a busy machine a Python worker may take longer than the default of 15 s to authenticate.
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # The default, 200, is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


@contextmanager
def session(run: Run, master: str | None = None, settings: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    """Yield a session with the RocketMQ formats registered, and stop it at the end.

    The default master, unless spark-submit has set one, is local. Settings of spark-submit and spark-defaults.conf
    are kept.
    """
    check_installed()
    prepare()
    _silence_startup()
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    conf = _configuration(run.progress.name, master, settings or {})
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        # Spark has replaced our signal handlers.
        run.install_signal_handlers()
        # Errors are reported in one sentence; set spark.log.level to see Spark's own log.
        if conf.get("spark.log.level") is None:
            spark.sparkContext.setLogLevel("OFF")
            for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
                PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        register(spark)
        run.progress.master = spark.sparkContext.master or ""
        run.raise_if_stopped()
        yield spark
    finally:
        spark.stop()


def _configuration(name: str, master: str | None, settings: Mapping[str, str]) -> "SparkConf":
    from pyspark import SparkConf, SparkContext

    explicit = SparkConf(loadDefaults=False)
    if _GATEWAY_PORT not in os.environ:
        explicit.setAppName(name)
        explicit.set(_PROGRESS_BARS, "false")
    if master is not None:
        explicit.setMaster(master)
    for key, value in settings.items():
        explicit.set(key, value)
    # Only the JVM knows the settings of spark-submit and spark-defaults.conf.
    SparkContext._ensure_initialized(conf=explicit)
    conf = SparkConf()
    for key, value in explicit.getAll():
        conf.set(key, value)
    is_local = (conf.get("spark.master") or "local").startswith("local")
    for key, value in {**_SETTINGS, **(_LOCAL_SETTINGS if is_local else {})}.items():
        conf.setIfMissing(key, value)
    return conf


def _silence_startup() -> None:
    """Keep Spark's start-up log off the console, unless the user has configured log4j."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j" not in options and "SPARK_CONF_DIR" not in os.environ:
        quiet = (Path(__file__).parent / "log4j2.properties").as_uri()
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={quiet}".strip()


def check_installed() -> None:
    """ConfigurationError with the remedy if Spark is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(f"pipelines need Spark: {install_command('spark')}") from error
