"""A killed Apache broker leaves the routes of our NameServer at once, a frozen one after its timeout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apache import VERSIONS, servers
from tests.apache.admin import Admin
from tests.apache.processes import Process
from tests.compat import name_servers
from tests.compat.deployment import Deployment, ask
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_NAME = "broker-mortal"

# With slave acting master, a 5.x broker sends a light heartbeat every second, and registers with a heartbeat timeout
# of ten seconds (brokerNotActiveTimeoutMillis).
_LIGHT_HEARTBEATS = {
    "enableSlaveActingMaster": "true",
    "skipPreOnline": "true",
    "registerNameServerPeriod": "10000",
}
_REGISTER_PERIOD_SECONDS = 30.0
_SCAN_SECONDS = 10.0
_SLACK_SECONDS = 5.0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_broker_leaves_at_once(deployment: Deployment, table: Table, version: str) -> None:
    with table.row(Part.DEPARTURES, "a broker killed with SIGKILL leaves the route at once", version) as row:
        with _registered_broker(deployment, version) as (namesrv, broker):
            broker.kill()

            took = _wait_until_gone(deployment.admins[version], namesrv, timeout_seconds=5.0)
        row.result = f"gone after {took:.1f} s"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_leaves_before_its_shutdown_ends(deployment: Deployment, table: Table, version: str) -> None:
    with table.row(Part.DEPARTURES, "a broker stopped with SIGTERM has left the route when it exits", version) as row:
        with _registered_broker(deployment, version) as (namesrv, broker):
            broker.terminate()

            took = _wait_until_gone(deployment.admins[version], namesrv, timeout_seconds=5.0)
        row.result = f"gone after {took:.1f} s"


def test_a_frozen_broker_with_light_heartbeats_leaves_after_ten_seconds(deployment: Deployment, table: Table) -> None:
    version = "5.5.0"
    with table.row(
        Part.DEPARTURES, "a broker frozen with SIGSTOP leaves after its heartbeat timeout of 10 s", version
    ) as row:
        took = _freeze(deployment, version, _LIGHT_HEARTBEATS, timeout_seconds=10.0)
        row.result = f"gone after {took:.1f} s"


@pytest.mark.slow
def test_a_frozen_broker_leaves_after_two_minutes(deployment: Deployment, table: Table) -> None:
    """Both versions run at the same time, because the test only waits."""

    def freeze(version: str) -> None:
        with table.row(
            Part.DEPARTURES, "a broker frozen with SIGSTOP leaves after the default timeout of 120 s", version
        ) as row:
            took = _freeze(deployment, version, {}, timeout_seconds=120.0)
            row.result = f"gone after {took:.1f} s"

    with ThreadPoolExecutor(len(VERSIONS)) as threads:
        list(threads.map(freeze, VERSIONS))


def _freeze(deployment: Deployment, version: str, properties: Mapping[str, str], timeout_seconds: float) -> float:
    """Freeze a broker, and return the seconds until it left the route; check that it returns when it resumes.

    A broker leaves one timeout after its last registration, which may have been a whole period (30 s) earlier.
    """
    period = 1.0 if properties else _REGISTER_PERIOD_SECONDS
    with _registered_broker(deployment, version, properties) as (namesrv, broker):
        broker.stop()

        longest = timeout_seconds + _SCAN_SECONDS + _SLACK_SECONDS
        took = _wait_until_gone(deployment.admins[version], namesrv, longest)
        assert took > timeout_seconds - period - _SLACK_SECONDS

        broker.resume()
        _wait_until_listed(deployment.admins[version], namesrv, broker)
    return took


@contextlib.contextmanager
def _registered_broker(
    deployment: Deployment, version: str, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Process, Process]]:
    """Start a NameServer under test and a broker, and yield both when the broker is in the route."""
    with (
        name_servers.subject(version) as namesrv,
        servers.broker(version, namesrv.address, name=_NAME, properties=properties) as broker,
    ):
        _wait_until_listed(deployment.admins[version], namesrv, broker)
        yield namesrv, broker


def _wait_until_listed(tool: Admin, namesrv: Process, broker: Process) -> None:
    longest = _REGISTER_PERIOD_SECONDS + _SLACK_SECONDS
    eventually(lambda: broker.address in _route(tool, namesrv), longest, f"{_NAME} in the route")


def _wait_until_gone(tool: Admin, namesrv: Process, timeout_seconds: float) -> float:
    return eventually(lambda: "CODE: 17" in _route(tool, namesrv), timeout_seconds, f"{_NAME} out of the route")


def _route(tool: Admin, namesrv: Process) -> str:
    # Each broker has a topic with its name. Only the NameServer is queried for its route.
    return ask(tool, namesrv, "topicRoute", "-t", _NAME)
