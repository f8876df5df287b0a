"""The checks of `kerolox doctor`."""

from pathlib import Path

import pytest

from kerolox.admin import BrokerStatus
from kerolox.admin.consistency import View
from kerolox.cli import doctor_checks
from kerolox.cli.doctor_checks import Level
from kerolox.errors import CallTimeout, ConnectFailed
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo

NOW = 1_700_000_000_000


def broker(address: str = "192.0.2.1:10911", **info: str) -> BrokerStatus:
    return BrokerStatus("c", "broker-a", 0, address, info)


def cluster(**brokers: dict[int, str]) -> ClusterInfo:
    return ClusterInfo({name: BrokerData(name, "c", table) for name, table in brokers.items()}, {"c": list(brokers)})


def test_an_unreachable_server_is_reported_with_a_remedy() -> None:
    fine = doctor_checks.check_reachable("NameServer", "a:1", None, "start it")
    lost = doctor_checks.check_reachable("NameServer", "a:1", ConnectFailed("refused\n by it"), "start it")

    assert (fine.level, fine.remedy) == (Level.OK, "")
    assert (lost.level, lost.what) == (Level.FAILURE, "NameServer a:1 does not answer: refused by it")


def test_name_servers_with_equal_tables_agree() -> None:
    one = View("a:1", {"x/0 at x:0"}, {"orders"}, {"orders": {"x: 8 to read"}})
    same = View("a:2", {"x/0 at x:0"}, {"orders"}, {"orders": {"x: 8 to read"}})
    other = View("a:3", {"x/0 at x:0", "y/0 at y:0"}, {"orders", "bills"}, {"orders": {"x: 4 to read"}})

    fine, lost = doctor_checks.check_agreement([one, same]), doctor_checks.check_agreement([one, other])

    assert (fine.level, fine.what) == (Level.OK, "2 NameServers agree on 1 brokers, 1 topics and their routes")
    assert lost.level is Level.FAILURE
    assert "a:3 lists broker y/0 at y:0, and a:1 does not." in lost.what
    assert "a:3 lists topic bills, and a:1 does not." in lost.what
    assert "The routes of topic orders differ: a:1 says x: 8 to read; a:3 says x: 4 to read." in lost.what


def test_only_the_first_differences_are_listed() -> None:
    text = doctor_checks.check_agreement([View("a:1"), View("a:2", topics={f"t{number}" for number in range(9)})]).what

    assert text.count("a:2 lists topic") == 5
    assert text.endswith("And 4 more.")


def test_another_program_on_the_port_is_distinguished_from_an_unreachable_one() -> None:
    unreachable = doctor_checks.check_name_server("a:9876", ConnectFailed("cannot connect"))
    other = doctor_checks.check_name_server("a:9876", CallTimeout("no answer"))

    assert unreachable.remedy.startswith("start one (kerolox up)")
    assert other.what.startswith("something listens at a:9876, but does not answer like a NameServer")
    assert other.remedy.startswith("see which process it is (`ss -ltnp 'sport = :9876'`)")


def test_ports_are_free_or_used_by_a_named_process() -> None:
    assert doctor_checks.check_port(9876, True, None).what == "port 9876 (NameServer) is free on this machine"
    taken = doctor_checks.check_port(8080, False, "process 7 (java)")
    assert taken.level is Level.WARNING
    assert taken.what == "port 8080 (dashboard) is used on this machine by process 7 (java)"
    assert taken.remedy == "stop it, or choose another port with `kerolox up --dashboard-port PORT`"
    assert "a process of another user" in doctor_checks.check_port(8080, False, None).what


@pytest.mark.parametrize(("free", "level"), [(90, Level.OK), (20, Level.WARNING), (5, Level.FAILURE)])
def test_the_local_disk_is_reported(free: int, level: Level) -> None:
    found = doctor_checks.check_local_disk(Path("/data"), (100 - free) * 10**9, free * 10**9)

    assert found.level is level
    assert found.what == f"the disk of /data ({free}.0 GB free) is {100 - free}% full"


def test_blocks_reserved_for_root_do_not_count_as_used() -> None:
    assert doctor_checks.check_local_disk(Path("/data"), used=30 * 10**9, free=60 * 10**9).what.endswith(" is 33% full")


def test_brokers_without_masters_are_reported() -> None:
    assert doctor_checks.check_masters(cluster(x={0: "x:0"})) == []
    assert doctor_checks.check_masters(cluster())[0].what == "no broker is registered"
    assert "broker x has no master" in doctor_checks.check_masters(cluster(x={1: "x:1"}))[0].what


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
def test_a_loopback_address_in_a_remote_cluster_fails(address: str, name_server: str, level: Level | None) -> None:
    found = doctor_checks.check_advertised_address([name_server], broker(address))

    assert (found and found.level) == level


@pytest.mark.parametrize(
    ("ratio", "level"),
    [("0.5", Level.OK), ("0.8", Level.WARNING), ("0.95", Level.FAILURE), ("-1", None), ("odd", None)],
)
def test_a_nearly_full_disk_is_reported(ratio: str, level: Level | None) -> None:
    found = doctor_checks.check_disk(broker(commitLogDiskRatio=ratio))

    assert (found and found.level) == level


def test_a_wrong_clock_is_reported() -> None:
    boot = str(NOW - 3_661_000)
    right = doctor_checks.check_clock(
        broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 1 minutes, 1 seconds ]"), NOW
    )
    ahead = doctor_checks.check_clock(
        broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 2 minutes, 1 seconds ]"), NOW
    )
    behind = doctor_checks.check_clock(
        broker(bootTimestamp=boot, runtime="[ 0 days, 1 hours, 0 minutes, 1 seconds ]"), NOW
    )

    assert right is not None
    assert right.level is Level.OK
    assert ahead is not None
    assert ahead.what == "the clock of broker broker-a is 60 s ahead of this one"
    assert behind is not None
    assert "60 s behind" in behind.what
    assert doctor_checks.check_clock(broker(), NOW) is None


def test_waiting_requests_are_reported() -> None:
    found = doctor_checks.check_load(
        broker(sendThreadPoolQueueHeadWaitTimeMills="900", pullThreadPoolQueueHeadWaitTimeMills="0")
    )

    assert found is not None
    assert "send requests wait 900 ms" in found.what
    assert doctor_checks.check_load(broker()) is None


def test_low_limits_are_reported_with_the_command_that_raises_them() -> None:
    low = doctor_checks.check_limits(1024, 65_530)

    assert [finding.level for finding in low] == [Level.WARNING] * 2
    assert "ulimit -n 65536" in low[0].remedy
    assert [finding.level for finding in doctor_checks.check_limits(1_000_000, None)] == [Level.OK]
