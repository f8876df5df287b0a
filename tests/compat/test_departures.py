"""An Apache broker that dies leaves our routes at once; one that freezes leaves after its time-out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apache import VERSIONS, servers
from tests.apache.admin import Admin
from tests.apache.processes import Process
from tests.compat import name_servers
from tests.compat.stage import Stage, ask
from tests.compat.table import Part, Table
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]

_NAME = "broker-mortal"

# A 5.x broker that may stand in for its master sends a light heartbeat every second, and asks to be
# forgotten when ten seconds (brokerNotActiveTimeoutMillis) have brought none.
_LIGHT_HEARTBEATS = {
    "enableSlaveActingMaster": "true",
    "skipPreOnline": "true",
    "registerNameServerPeriod": "10000",
}
_REGISTER_PERIOD_SECONDS = 30.0
_SCAN_SECONDS = 10.0
_SLACK_SECONDS = 5.0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_broker_leaves_at_once(stage: Stage, table: Table, version: str) -> None:
    with table.row(Part.DEPARTURES, "a broker killed with SIGKILL leaves the route at once", version) as row:
        with _mortal(stage, version) as (namesrv, broker):
            broker.kill()

            took = _wait_until_gone(stage.admins[version], namesrv, timeout_seconds=5.0)
        row.result = f"gone after {took:.1f} s"


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_is_shut_down_has_left_when_it_ends(stage: Stage, table: Table, version: str) -> None:
    with table.row(Part.DEPARTURES, "a broker ended with SIGTERM has left the route by then", version) as row:
        with _mortal(stage, version) as (namesrv, broker):
            broker.terminate()

            took = _wait_until_gone(stage.admins[version], namesrv, timeout_seconds=5.0)
        row.result = f"gone after {took:.1f} s"


def test_a_frozen_broker_with_light_heartbeats_leaves_after_ten_seconds(stage: Stage, table: Table) -> None:
    version = "5.5.0"
    with table.row(Part.DEPARTURES, "a broker frozen with SIGSTOP leaves after its own 10 s", version) as row:
        took = _freeze(stage, version, _LIGHT_HEARTBEATS, timeout_seconds=10.0)
        row.result = f"gone after {took:.1f} s"


@pytest.mark.slow
def test_a_frozen_broker_leaves_after_two_minutes(stage: Stage, table: Table) -> None:
    """Those of both versions at the same time, since all there is to do is wait."""

    def freeze(version: str) -> None:
        with table.row(Part.DEPARTURES, "a broker frozen with SIGSTOP leaves after the usual 120 s", version) as row:
            took = _freeze(stage, version, {}, timeout_seconds=120.0)
            row.result = f"gone after {took:.1f} s"

    with ThreadPoolExecutor(len(VERSIONS)) as threads:
        list(threads.map(freeze, VERSIONS))


def _freeze(stage: Stage, version: str, properties: Mapping[str, str], timeout_seconds: float) -> float:
    """Freezes a broker and returns after how many seconds it was gone: when it was due, or soon after.

    It is due a time-out after it last registered, which may have been a whole period (30 s) before.
    When it thaws, it is back with its next registration.
    """
    period = 1.0 if properties else _REGISTER_PERIOD_SECONDS
    with _mortal(stage, version, properties) as (namesrv, broker):
        broker.stop()

        longest = timeout_seconds + _SCAN_SECONDS + _SLACK_SECONDS
        took = _wait_until_gone(stage.admins[version], namesrv, longest)
        assert took > timeout_seconds - period - _SLACK_SECONDS

        broker.resume()
        _wait_until_there(stage.admins[version], namesrv, broker)
    return took


@contextlib.contextmanager
def _mortal(
    stage: Stage, version: str, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[Process, Process]]:
    """A NameServer under test of its own, and a broker that is in its route."""
    with (
        name_servers.subject(version) as namesrv,
        servers.broker(version, namesrv.address, name=_NAME, properties=properties) as broker,
    ):
        _wait_until_there(stage.admins[version], namesrv, broker)
        yield namesrv, broker


def _wait_until_there(tool: Admin, namesrv: Process, broker: Process) -> None:
    longest = _REGISTER_PERIOD_SECONDS + _SLACK_SECONDS
    eventually(lambda: broker.address in _route(tool, namesrv), longest, f"{_NAME} in the route")


def _wait_until_gone(tool: Admin, namesrv: Process, timeout_seconds: float) -> float:
    return eventually(lambda: "CODE: 17" in _route(tool, namesrv), timeout_seconds, f"{_NAME} out of the route")


def _route(tool: Admin, namesrv: Process) -> str:
    # A broker's name is a topic on that broker, and asking for its route asks nobody but the NameServer.
    return ask(tool, namesrv, "topicRoute", "-t", _NAME)
