"""A Kafka broker, and Spark's source and sink for it, both from Maven, for comparison."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator

from bench.connections import connect
from bench.servers import JAVA_HEAP
from tests.apache.maven import MavenError, resolved
from tests.apache.processes import environment, free_port, running, temporary_home
from tests.apache.servers import write_properties

VERSION = "3.9.1"
PARTITIONS = 8
_READY_SECONDS_MAX = 90.0

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kerolox.bench</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>{alone}
    </dependency>
"""
# Spark itself is there already.
_ALONE = """
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


def connectors(installed: str) -> list[tuple[str, str]]:
    """Returns which versions of Spark's Kafka source, and of the part it needs, may run on an installed Spark.

    Not every version of both has reached Maven. An older one says so in the table.
    """
    return [(installed, installed), ("4.2.0", "4.0.0")]


def spark_jars(installed: str) -> tuple[str, str]:
    """Returns the version of Spark's Kafka source and its comma-separated jars; raises MavenError if there are none."""
    failures = []
    for source, tokens in connectors(installed):
        try:
            return source, _connector(source, tokens).replace(os.pathsep, ",")
        except MavenError as error:
            failures.append(str(error))
    raise MavenError(failures[-1])


def _connector(source: str, tokens: str) -> str:
    artifacts = (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", source),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens),
        ("org.apache.kafka", "kafka-clients", VERSION),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
    )
    dependencies = "".join(
        _DEPENDENCY.format(group=group, artifact=artifact, version=version, alone=_ALONE)
        for group, artifact, version in artifacts
    )
    return resolved(_POM.format(name="spark-kafka", dependencies=dependencies), f"kafka/spark-{source}")


def _broker_jars() -> str:
    dependency = _DEPENDENCY.format(group="org.apache.kafka", artifact="kafka_2.13", version=VERSION, alone="")
    return resolved(_POM.format(name="kafka", dependencies=dependency), f"kafka/{VERSION}")


@contextlib.contextmanager
def kafka_broker() -> Iterator[str]:
    """The address of a broker that keeps its own quorum and has its defaults; topics are made as they are named."""
    jars = _broker_jars()
    port, controller = free_port(), free_port()
    with temporary_home() as home:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(home / "logs"),
            "num.partitions": str(PARTITIONS),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # On two busy cores its own heartbeats may be late, and the broker would be fenced.
            "broker.session.timeout.ms": "60000",
        }
        file = str(write_properties(home / "kafka.properties", settings))
        java = ["java", *JAVA_HEAP, "-cp", jars]
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        formatting = [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", file]
        subprocess.run(formatting, cwd=home, env=environment(home), check=True, capture_output=True, timeout=120)
        with running([*java, "kafka.Kafka", file], home, f"127.0.0.1:{port}"):
            _wait_for(port)
            yield f"127.0.0.1:{port}"


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while True:
        try:
            connect(port).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
