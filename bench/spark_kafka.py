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
# Without dependencies: Spark already has them.
_ALONE = """
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


def connectors(installed: str) -> list[tuple[str, str]]:
    """Return the versions of Spark's Kafka source and of its token provider that run on an installed Spark.

    Not every version of both is on Maven. The table shows the version that was used.
    """
    return [(installed, installed), ("4.2.0", "4.0.0")]


def spark_jars(installed: str) -> tuple[str, str]:
    """Return the version of Spark's Kafka source and its comma-separated jars; MavenError if there are none."""
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
    """Start a broker with KRaft controller in one process and default settings; yield its address."""
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
            # On two busy cores, heartbeats of the broker may be late, and the controller would fence it.
            "broker.session.timeout.ms": "60000",
        }
        file = str(write_properties(home / "kafka.properties", settings))
        java = ["java", *JAVA_HEAP, "-cp", jars]
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        format_storage = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", file]
        subprocess.run(format_storage, cwd=home, env=environment(home), check=True, capture_output=True, timeout=120)
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
