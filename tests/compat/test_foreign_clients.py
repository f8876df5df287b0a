"""Clients in C++ and JavaScript find Apache's brokers through our NameServer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apache import VERSIONS
from tests.apache.processes import Completed, run_java
from tests.compat.deployment import BROKER_NAMES, Deployment
from tests.compat.foreign_clients import ali_ons_send, cpp_send
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

_CLIENTS = {"C++ (rocketmq 0.4.4)": cpp_send, "JavaScript (ali-ons 3.12.0)": ali_ons_send}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("client", "send"), _CLIENTS.items(), ids=["cpp", "ali-ons"])
def test_java_consumes_a_message_of_another_client(
    deployment: Deployment, table: Table, version: str, client: str, send: Callable[[str, str, str], Completed]
) -> None:
    namesrv = deployment.subjects[version].address
    broker = deployment.brokers[version]
    topic = f"from_{send.__name__}_to_{BROKER_NAMES[version]}"
    with table.row(Part.OTHER_LANGUAGES, f"{client} sends to {BROKER_NAMES[version]}, Java consumes", version):
        deployment.ask_subject(version, "updateTopic", "-b", broker.address, "-t", topic, "-r", "4", "-w", "4")
        eventually(
            lambda: broker.address in deployment.ask_subject(version, "topicRoute", "-t", topic),
            30.0,
            f"route of {topic}",
        )

        sent = send(namesrv, topic, "from afar")
        assert "sent " in sent.stdout, sent
        consumed = run_java(version, "Consume.java", namesrv, topic, f"group_{topic}", "1", "60")

        assert consumed.stdout.splitlines()[-2:] == ["from afar", "consumed 1"], consumed
