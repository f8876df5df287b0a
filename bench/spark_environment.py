"""Environment of the Spark benchmark: a session on two cores, two Kerolox brokers, and Kafka if available."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.brokers import name_server, ours
from bench.servers import started
from bench.spark_kafka import PARTITIONS, kafka_broker, spark_jars
from kerolox.admin.sync import AdminClient
from kerolox.spark import prepare, register
from tests.apache.maven import MavenError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
BROKERS = ("broker-a", "broker-b")
QUEUES = 4
_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(slots=True)
class SparkEnvironment:
    """All running servers, and the directory for files."""

    spark: SparkSession
    directory: Path
    namesrv: str
    admin: AdminClient
    stores: list[Path]
    # Address of Kafka and version of Spark's Kafka source, or the reason why Kafka is not measured.
    kafka: str | None
    connector: str
    kafka_absence: str

    def with_kafka(self, measure: Callable[[], float]) -> list[float]:
        """Return one rate measured with Kafka, or none after Kafka has failed, to measure the others anyway."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if self.kafka is None:
            return []
        try:
            return [measure()]
        except (PySparkException, Py4JError) as error:
            lines = str(error).strip().splitlines()
            self.kafka, self.kafka_absence = None, next((line for line in lines[::-1] if "Exception" in line), lines[0])
            return []

    def create(self, topic: str) -> None:
        self.admin.topics.create(topic, read_queues=QUEUES, write_queues=QUEUES)

    def create_on_kafka(self, topic: str) -> None:
        """Create a topic in Kafka: with an auto-created one, a producer may find no leader for minutes."""
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", str(self.kafka))
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        try:
            new = jvm.org.apache.kafka.clients.admin.NewTopic(topic, PARTITIONS, 1)
            admin.createTopics(jvm.java.util.Collections.singletonList(new)).all().get()
        finally:
            admin.close()

    def stored(self, topic: str) -> int:
        """Return how many messages the queues of a topic hold."""
        return sum(queue.max_offset - queue.min_offset for queue in self.admin.topics.status(topic).values())


@contextlib.contextmanager
def open_environment(
    directory: Path, show_status: Callable[[str], None], *, has_kafka: bool = True
) -> Iterator[SparkEnvironment]:
    with contextlib.ExitStack() as stack:
        show_status("starting two brokers")
        namesrv = name_server(stack)
        servers = [stack.enter_context(started(ours(namesrv, "ASYNC_FLUSH", name))) for name in BROKERS]
        admin = stack.enter_context(AdminClient(namesrv_addr=namesrv, timeout_seconds=30))
        kafka, connector, jars, absence = None, "", "", "--no-kafka"
        if has_kafka:
            show_status("downloading and starting Kafka")
            try:
                connector, jars = spark_jars(_spark_version())
                kafka, absence = stack.enter_context(kafka_broker()), ""
            except (MavenError, OSError, subprocess.SubprocessError) as error:
                absence = " ".join(str(error).split())[:300]
        show_status("starting Spark")
        spark = stack.enter_context(_session(directory, jars))
        stores = [server.process.home / "store" for server in servers]
        yield SparkEnvironment(spark, directory, namesrv, admin, stores, kafka, connector, absence)


@contextlib.contextmanager
def _session(directory: Path, jars: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    prepare()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Worker processes must find this package from any working directory, and share compiled bytecode.
    root = Path(__file__).parents[1]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(directory / "compiled")
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for key, value in {**_SETTINGS, "spark.sql.warehouse.dir": str(directory / "warehouse")}.items():
        builder = builder.config(key, value)
    if jars:
        builder = builder.config("spark.jars", jars)
    session = builder.getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        _register_arrow(session)
        yield session
    finally:
        session.stop()


def _register_arrow(session: SparkSession) -> None:
    from bench.spark_arrow import PrebuiltArrow

    session.dataSource.register(PrebuiltArrow)


def _spark_version() -> str:
    import pyspark

    return str(pyspark.__version__)
