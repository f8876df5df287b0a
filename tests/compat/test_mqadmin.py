"""Apache's mqadmin prints the same for Apache's NameServer and for ours."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterable

import pytest

from tests.apache import VERSIONS
from tests.apache.requirements import require_java
from tests.compat.commands import (
    Step,
    broker_steps,
    configuration_steps,
    route_steps,
    short_steps,
    static_topic_steps,
)
from tests.compat.deployment import BROKER_NAMES, Deployment, open_deployment
from tests.compat.similarity import Similarity, similarity
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_SETTLED_SECONDS = 10.0
_REGISTERED_SECONDS = 40.0
_PAUSE_SECONDS = 0.2
_SETTING = re.compile(r"^(\w+) = ?(.*)$", re.MULTILINE)

_ESSENTIAL_SETTINGS = {"listenPort", "bindAddress", "kvConfigPath", "configStorePath", "orderMessageEnable"}
# Each NameServer has its own.
_OWN_SETTINGS = {"listenPort", "kvConfigPath", "configStorePath", "rocketmqHome"}


@pytest.mark.parametrize("version", VERSIONS)
def test_basic_commands_print_the_same(deployment: Deployment, table: Table, version: str) -> None:
    _compare(deployment, table, version, short_steps(_topic("handful", version)))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_route_command_prints_the_same(deployment: Deployment, table: Table, version: str) -> None:
    _compare(deployment, table, version, route_steps(_topic("routes", version), BROKER_NAMES[version]))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_configuration_command_prints_the_same(deployment: Deployment, table: Table, version: str) -> None:
    steps = configuration_steps(_topic("settings", version), deployment.brokers[version].address)
    _compare(deployment, table, version, steps)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_broker_command_prints_the_same(deployment: Deployment, table: Table, version: str) -> None:
    _compare(deployment, table, version, broker_steps(_topic("group", version)))


@pytest.mark.slow
def test_commands_print_the_same_for_a_static_topic(table: Table) -> None:
    """Static topics require that all brokers are 5.x, so the test has its own deployment."""
    require_java()
    version = "5.5.0"
    topic = _topic("static", version)
    with open_deployment((version,)) as deployment:
        create = ("updateStaticTopic", "-t", topic, "-qn", "4", "-b", BROKER_NAMES[version])

        def is_static() -> bool:
            deployment.ask_reference(version, *create)
            return "topicQueueMappingByBroker" in deployment.ask_reference(version, "topicRoute", "-t", topic)

        eventually(is_static, _REGISTERED_SECONDS, f"route of {topic}")

        _compare(deployment, table, version, static_topic_steps(topic))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_settings_known_to_both_have_the_same_values(deployment: Deployment, table: Table, version: str) -> None:
    """Our has no settings for Java's threads and buffers, and some of its own."""
    with table.row(Part.MQADMIN, "mqadmin getNamesrvConfig", version) as row:
        apache = dict(_SETTING.findall(deployment.ask_reference(version, "getNamesrvConfig")))
        ours = dict(_SETTING.findall(deployment.ask_subject(version, "getNamesrvConfig")))

        common = apache.keys() & ours.keys()
        different = {key for key in common - _OWN_SETTINGS if ours[key] != apache[key]}
        assert not different
        assert common >= _ESSENTIAL_SETTINGS
        row.result = f"{len(common)} of {len(apache)} settings, same values"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_paths_cannot_be_set_over_the_wire(deployment: Deployment, table: Table, version: str) -> None:
    """Both refuse with the same code; our remark is that of 5.x, which differs from 4.9."""
    with table.row(Part.MQADMIN, "mqadmin updateNamesrvConfig -k kvConfigPath", version) as row:
        arguments = ("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/nowhere")
        apache = deployment.ask_reference(version, *arguments)
        ours = deployment.ask_subject(version, *arguments)

        assert "CODE: 16" in apache
        assert "CODE: 16" in ours
        row.result = "both refuse with code 16"


def _compare(deployment: Deployment, table: Table, version: str, steps: Iterable[Step]) -> None:
    """Run all steps against both, then fails if any differs."""
    differences: list[str] = []
    for step in steps:
        title = step.title.replace(deployment.brokers[version].address, BROKER_NAMES[version])
        with table.row(Part.MQADMIN, title, version) as row:
            apache, ours = _ask_both(deployment, version, step)
            found = similarity(apache, ours)
            row.result = found.value
        if found is Similarity.DIFFERENT:
            names = (f"apache: {title}", "ours")
            differences += difflib.unified_diff(apache.splitlines(), ours.splitlines(), *names, lineterm="")
    assert not differences, "\n".join(differences)


def _ask_both(deployment: Deployment, version: str, step: Step) -> tuple[str, str]:
    """Return the mqadmin output for Apache's and our NameServer, once both have received all registrations."""
    deadline = time.monotonic() + (_SETTLED_SECONDS if step.reads else 0.0)
    while True:
        apache = deployment.ask_reference(version, *step.arguments)
        ours = deployment.ask_subject(version, *step.arguments)
        if similarity(apache, ours) is not Similarity.DIFFERENT or time.monotonic() >= deadline:
            return apache, ours
        time.sleep(_PAUSE_SECONDS)


def _topic(purpose: str, version: str) -> str:
    return f"{purpose}_{version.replace('.', '_')}"
