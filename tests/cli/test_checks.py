"""What is found out of what servers say."""

from pathlib import Path

import pytest

from kerolox.admin import BrokerStatus
from kerolox.admin.agreement import View
from kerolox.cli import checks
from kerolox.cli.checks import Level
from kerolox.errors import CallTimeout, ConnectFailed
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo

NOW = 1_700_000_000_000


def broker(address: str = "192.0.2.1:10911", **info: str) -> BrokerStatus:
    return BrokerStatus("c", "broker-a", 0, address, info)


def cluster(**brokers: dict[int, str]) -> ClusterInfo:
    return ClusterInfo({name: BrokerData(name, "c", table) for name, table in brokers.items()}, {"c": list(brokers)})


def test_who_does_not_answer_is_told_with_what_to_do() -> None:
    fine = checks.reached("NameServer", "a:1", None, "start it")
    lost = checks.reached("NameServer", "a:1", ConnectFailed("refused\n by it"), "start it")

    assert (fine.level, fine.remedy) == (Level.OK, "")
    assert (lost.level, lost.what) == (Level.FAILURE, "NameServer a:1 does not answer: refused by it")


def test_name_servers_that_know_the_same_agree() -> None:
    one = View("a:1", {"x/0 at x:0"}, {"orders"}, {"orders": {"x: 8 to read"}})
    same = View("a:2", {"x/0 at x:0"}, {"orders"}, {"orders": {"x: 8 to read"}})
    other = View("a:3", {"x/0 at x:0", "y/0 at y:0"}, {"orders", "bills"}, {"orders": {"x: 4 to read"}})

    fine, lost = checks.agreement([one, same]), checks.agreement([one, other])

    assert (fine.level, fine.what) == (Level.OK, "2 NameServers agree on 1 brokers, 1 topics and their routes")
    assert lost.level is Level.FAILURE
    assert "a:3 lists broker y/0 at y:0, and a:1 does not." in lost.what
    assert "a:3 lists topic bills, and a:1 does not." in lost.what
    assert "The routes of topic orders differ: a:1 says x: 8 to read; a:3 says x: 4 to read." in lost.what


def test_of_many_differences_some_are_told() -> None:
    told = checks.agreement([View("a:1"), View("a:2", topics={f"t{number}" for number in range(9)})]).what

    assert told.count("a:2 lists topic") == 5
    assert told.endswith("And 4 more.")


def test_what_listens_and_is_no_name_server_is_told_apart_from_nobody() -> None:
    nobody = checks.answered("a:9876", ConnectFailed("cannot connect"))
    other = checks.answered("a:9876", CallTimeout("no answer"))

    assert nobody.remedy.startswith("start one (kerolox up)")
    assert other.what.startswith("something listens at a:9876, and does not answer as a NameServer")
    assert other.remedy.startswith("something else listens there (`ss -ltnp 'sport = :9876'` says what)")


def test_ports_are_free_or_somebodys() -> None:
    assert checks.port(9876, True, None).what == "port 9876 (NameServer) is free here"
    taken = checks.port(8080, False, "process 7 (java)")
    assert (taken.level, taken.what) == (Level.WARNING, "port 8080 (dashboard) is taken here by process 7 (java)")
    assert taken.remedy == "end it, or choose another with `kerolox up --dashboard-port PORT`"
    assert "somebody else's process" in checks.port(8080, False, None).what


@pytest.mark.parametrize(("free", "level"), [(90, Level.OK), (20, Level.WARNING), (5, Level.FAILURE)])
def test_the_disk_of_this_machine_is_told(free: int, level: Level) -> None:
    found = checks.local_disk(Path("/data"), (100 - free) * 10**9, free * 10**9)

    assert found.level is level
    assert found.what == f"the disk of /data ({free}.0 GB free) is {100 - free}% full"


def test_what_is_kept_for_the_administrator_of_a_disk_does_not_count() -> None:
    assert checks.local_disk(Path("/data"), used=30 * 10**9, free=60 * 10**9).what.endswith(" is 33% full")


def test_brokers_need_masters() -> None:
    assert checks.masters(cluster(x={0: "x:0"})) == []
    assert checks.masters(cluster())[0].what == "no broker is registered"
    assert "broker x has no master" in checks.masters(cluster(x={1: "x:1"}))[0].what


@pytest.mark.parametrize(
    ("address", "name_server", "level"),
    [
        ("192.0.2.1:10911", "192.0.2.9:9876", None),
        ("127.0.0.1:10911", "127.0.0.1:9876", Level.OK),
        ("127.0.0.1:10911", "localhost:9876", Level.OK),
        ("127.0.0.1:10911", "192.0.2.9:9876", Level.FAILURE),
        ("[::1]:10911", "mq.example:9876", Level.FAILURE),
    ],
)
def test_a_broker_for_others_has_an_address_for_them(address: str, name_server: str, level: Level | None) -> None:
    found = checks.advertised([name_server], broker(address))

    assert (found and found.level) == level


@pytest.mark.parametrize(
    ("ratio", "level"),
    [("0.5", Level.OK), ("0.8", Level.WARNING), ("0.95", Level.FAILURE), ("-1", None), ("odd", None)],
)
def test_a_disk_that_is_nearly_full_is_told(ratio: str, level: Level | None) -> None:
    found = checks.disk(broker(commitLogDiskRatio=ratio))

    assert (found and found.level) == level


def test_a_clock_that_is_wrong_is_told() -> None:
    boot = str(NOW - 3_661_000)
    right = checks.clock(broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 1 minutes, 1 seconds ]"), NOW)
    ahead = checks.clock(broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 2 minutes, 1 seconds ]"), NOW)
    behind = checks.clock(broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 0 minutes, 1 seconds ]"), NOW)

    assert right is not None
    assert right.level is Level.OK
    assert ahead is not None
    assert ahead.what == "the clock of broker broker-a is 60 s ahead of this one"
    assert behind is not None
    assert "60 s behind" in behind.what
    assert checks.clock(broker(), NOW) is None


def test_requests_that_wait_are_told() -> None:
    found = checks.load(broker(sendThreadPoolQueueHeadWaitTimeMills="900", pullThreadPoolQueueHeadWaitTimeMills="0"))

    assert found is not None
    assert "send requests 900 ms" in found.what
    assert checks.load(broker()) is None


def test_limits_that_are_low_are_told_with_the_command_that_raises_them() -> None:
    low = checks.limits(1024, 65_530)

    assert [finding.level for finding in low] == [Level.WARNING] * 2
    assert low[0].remedy.startswith("ulimit -n 65536")
    assert [finding.level for finding in checks.limits(1_000_000, None)] == [Level.OK]
