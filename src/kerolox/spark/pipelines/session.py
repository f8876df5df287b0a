"""The Spark session that a command works with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerolox.errors import ConfigurationError
from kerolox.runtime.extras import installing
from kerolox.spark import prepare, register
from kerolox.spark.pipelines.running import Run

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# Set by spark-submit, which has decided where to run.
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"

_SETTINGS: Final = {
    # Days are the same everywhere.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # The default, 200, is for clusters.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


@contextmanager
def session(run: Run, master: str | None = None, settings: Mapping[str, str] | None = None) -> "Iterator[SparkSession]":
    """Yields a session for a run that knows topics, and stops it in the end.

    The master is taken as it is; without one, and without spark-submit, it is this machine. What spark-submit or
    spark-defaults.conf have set is kept.
    """
    check_installed()
    prepare()
    _be_quiet()
    from pyspark.sql import SparkSession

    conf = _configuration(run.progress.name, master, settings or {})
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    try:
        # Spark has put its own in place of them.
        run.take_signals()
        # What fails is told in one sentence; whoever wants Spark's own words sets spark.log.level.
        if conf.get("spark.log.level") is None:
            spark.sparkContext.setLogLevel("OFF")
        register(spark)
        run.progress.master = spark.sparkContext.master or ""
        run.check()
        yield spark
    finally:
        spark.stop()


def _configuration(name: str, master: str | None, settings: Mapping[str, str]) -> "SparkConf":
    from pyspark import SparkConf, SparkContext

    given = SparkConf(loadDefaults=False)
    if _SUBMITTED not in os.environ:
        given.setAppName(name)
    if master is not None:
        given.setMaster(master)
    for key, value in settings.items():
        given.set(key, value)
    # Only Java knows what spark-submit and spark-defaults.conf say.
    SparkContext._ensure_initialized(conf=given)
    conf = SparkConf()
    for key, value in given.getAll():
        conf.set(key, value)
    is_local = (conf.get("spark.master") or "local").startswith("local")
    for key, value in {**_SETTINGS, **(_LOCAL_SETTINGS if is_local else {})}.items():
        conf.setIfMissing(key, value)
    return conf


def _be_quiet() -> None:
    """Keeps Spark from printing what it thinks while it starts, unless somebody has said what it should print."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j" not in options and "SPARK_CONF_DIR" not in os.environ:
        quiet = (Path(__file__).parent / "log4j2.properties").as_uri()
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={quiet}".strip()


def check_installed() -> None:
    """ConfigurationError with the remedy if there is no Spark."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(f"pipelines need Spark: {installing('spark')}") from error
