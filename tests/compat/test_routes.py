"""Apache's brokers register with our NameServer, and Apache's clients find them there."""

from __future__ import annotations

import pytest

from tests.apache import VERSIONS
from tests.apache.processes import run_java
from tests.compat.deployment import BROKER_NAMES, CLUSTER, Deployment
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

# The first test may download the jars from Maven, and starts the deployment.
pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_MESSAGES = 32


@pytest.mark.parametrize("version", VERSIONS)
def test_an_apache_broker_is_registered(deployment: Deployment, table: Table, version: str) -> None:
    name = BROKER_NAMES[version]
    address = deployment.brokers[version].address
    with table.row(Part.BROKERS, "a broker registers: clusterList and topicRoute show it", version):
        listed = deployment.ask_subject(version, "clusterList")
        route = deployment.ask_subject(version, "topicRoute", "-t", name)

        assert any(line.startswith(f"{CLUSTER} {name} 0 {address}") for line in listed.splitlines()), listed
        assert address in route
        assert f'"brokerName":"{name}"' in route.replace(": ", ":")


@pytest.mark.parametrize("version", VERSIONS)
def test_apache_clients_exchange_messages(deployment: Deployment, table: Table, version: str) -> None:
    topic = f"exchange_{version.replace('.', '_')}"
    namesrv = deployment.subjects[version].address
    with table.row(Part.CLIENTS, f"producer and consumer exchange {_MESSAGES} messages over both brokers", version):
        deployment.ask_subject(version, "updateTopic", "-c", CLUSTER, "-t", topic, "-r", "4", "-w", "4")
        wait_for_route(deployment, version, topic)

        sent = run_java(version, "Produce.java", namesrv, topic, str(_MESSAGES))
        assert f"sent {_MESSAGES}\n" in sent.stdout, sent
        consumed = run_java(version, "Consume.java", namesrv, topic, f"group_{topic}", str(_MESSAGES), "60")

        assert f"consumed {_MESSAGES}\n" in consumed.stdout, consumed


def wait_for_route(deployment: Deployment, version: str, topic: str) -> None:
    """Wait until our NameServer has a route of the topic with both brokers."""
    addresses = [broker.address for broker in deployment.brokers.values()]

    def is_complete() -> bool:
        route = deployment.ask_subject(version, "topicRoute", "-t", topic)
        return all(address in route for address in addresses)

    eventually(is_complete, 30.0, f"route of {topic} over both brokers")
