"""Environment of the Spark benchmark: a session on two cores, two brokers of ours, and Kafka if reachable."""

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
class Stage:
    """All running servers, and the directory for files."""

    spark: SparkSession
    directory: Path
    namesrv: str
    admin: AdminClient
    stores: list[Path]
    # Address of Kafka and version of Spark's source for it, or the reason why there is none.
    kafka: str | None
    connector: str
    kafka_absence: str

    def with_kafka(self, measure: Callable[[], float]) -> list[float]:
        """Returns a rate with Kafka; None once it has failed, so that the others are still measured."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if self.kafka is None:
            return []
        try:
            return [measure()]
        except (PySparkException, Py4JError) as error:
            said = str(error).strip().splitlines()
            self.kafka, self.kafka_absence = None, next((line for line in said[::-1] if "Exception" in line), said[0])
            return []

    def create(self, topic: str) -> None:
        self.admin.topics.create(topic, read_queues=QUEUES, write_queues=QUEUES)

    def create_on_kafka(self, topic: str) -> None:
        """The same there: one that is made as it is named may leave a producer without a leader for minutes."""
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
        """Returns how many messages the queues of a topic hold."""
        return sum(place.max_offset - place.min_offset for place in self.admin.topics.status(topic).values())


@contextlib.contextmanager
def open_stage(directory: Path, say: Callable[[str], None], *, has_kafka: bool = True) -> Iterator[Stage]:
    with contextlib.ExitStack() as held:
        say("two brokers start")
        namesrv = name_server(held)
        servers = [held.enter_context(started(ours(namesrv, "ASYNC_FLUSH", name))) for name in BROKERS]
        admin = held.enter_context(AdminClient(namesrv_addr=namesrv, timeout_seconds=30))
        kafka, connector, jars, absence = None, "", "", "it was not asked for"
        if has_kafka:
            say("Kafka comes from Maven and starts")
            try:
                connector, jars = spark_jars(_spark_version())
                kafka, absence = held.enter_context(kafka_broker()), ""
            except (MavenError, OSError, subprocess.SubprocessError) as error:
                absence = " ".join(str(error).split())[:300]
        say("Spark starts")
        spark = held.enter_context(_session(directory, jars))
        stores = [server.process.home / "store" for server in servers]
        yield Stage(spark, directory, namesrv, admin, stores, kafka, connector, absence)


@contextlib.contextmanager
def _session(directory: Path, jars: str) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    prepare()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must find this module in any working directory, and share compiled bytecode.
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
