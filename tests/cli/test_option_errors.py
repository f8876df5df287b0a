"""Errors that a new user meets: one line each, with a remedy."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerolox.cli.app import main
from kerolox.testing.plugin import RunningCluster
from tests.cli.ups import FREE_PORTS, kerolox

_PORT_REMEDY = "; give another port with --port (0 takes a free one), or stop the process that listens there"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def refused(*arguments: str, typed: str | None = None) -> str:
    """Return the last line of the error with which a command fails."""
    result = CliRunner().invoke(main, list(arguments), input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code != 0
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert "Errno" not in error
    assert "Traceback" not in result.stderr
    return error.removeprefix("Error: ")


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
@pytest.mark.parametrize("bind", ["192.0.2.1", "nonsense.invalid"])
def test_up_names_its_own_flag_for_an_unusable_bind_address(
    tmp_path: Path, bind: str, extra_flags: tuple[str, ...]
) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", bind, *extra_flags)

    error = result.stderr.splitlines()[-1]
    assert bind in error
    assert "--bind" in error
    assert "brokerIP1" not in error
    assert "bindAddress" not in error
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_an_unusable_store_is_reported_with_one_remedy(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "broker-a").touch()

    result = kerolox(tmp_path, "up", "--no-dashboard", "--data", str(tmp_path / "data"), *FREE_PORTS, *extra_flags)

    assert result.stderr.splitlines()[-1].count("--data") == 1


@pytest.mark.parametrize("part", ["conf", "logs"])
def test_an_unwritable_folder_is_reported_with_the_flag(tmp_path: Path, part: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / part).touch()

    result = kerolox(tmp_path, "up", "--no-dashboard", "--data", str(tmp_path / "data"), *FREE_PORTS)

    assert "File exists" in result.stderr
    assert result.stderr.splitlines()[-1].endswith(" with --data")


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_up_names_the_advertise_flag_when_bound_to_all_interfaces(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", "0.0.0.0", *extra_flags)

    assert "set --advertise to the address at which clients reach this machine" in result.stderr.splitlines()[-1]
    assert "brokerIP1" not in result.stderr


def test_a_broker_whose_port_is_taken_creates_no_store(tmp_path: Path, taken: int) -> None:
    error = refused("broker", "--port", str(taken), "--store", str(tmp_path / "store"))

    assert f"cannot listen on 127.0.0.1:{taken}: " in error
    assert error.endswith(_PORT_REMEDY)
    assert not (tmp_path / "store").exists()


def test_a_taken_name_server_port_is_reported_with_a_remedy(taken: int) -> None:
    assert refused("namesrv", "--port", str(taken)).endswith(_PORT_REMEDY)


def test_a_taken_metrics_port_names_its_flag(taken: int) -> None:
    assert "give another port with --metrics-port" in refused("namesrv", "--port", "0", "--metrics-port", str(taken))


def test_a_foreign_bind_address_names_the_flag() -> None:
    assert "give an address of this machine with --bind" in refused("namesrv", "--port", "0", "--bind", "192.0.2.1")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("broker", "-c", "/nosuch"), "configuration file /nosuch cannot be read: No such file or directory"),
        (("namesrv", "-c", "/nosuch"), "configuration file /nosuch cannot be read: No such file or directory"),
        (
            ("broker", "--port", "0", "--store", "/proc/none"),
            "/proc/none could not be opened: No such file or directory: /proc/none; "
            "give a writable directory with --store (storePathRootDir)",
        ),
        (("namesrv", "--port", "often"), "Invalid value for '--port': 'often' is not a valid integer."),
        (
            ("admin", "topicList", "-n", "127.0.0.1:1"),
            "cannot connect to 127.0.0.1:1: connection refused; is it running? Give NameServers with -n or "
            "NAMESRV_ADDR; `kerolox up` starts one",
        ),
        (
            ("admin", "topicStatus", "-t", "x", "--watch", "abc"),
            "Invalid value for '--watch': 'abc' is not a valid number of seconds.",
        ),
        (
            ("top", "-i", "abc"),
            "Invalid value for '-i' / '--interval': 'abc' is not a valid number of seconds.",
        ),
        (
            ("admin", "updateTopicPerm", "-c", "DefaultCluster", "-t", "x", "-p", "9"),
            "--perm 9 permits neither reading nor writing: give 2 (write), 4 (read) or 6 (both)",
        ),
        (
            ("admin", "updateTopic", "-c", "DefaultCluster", "-t", "x", "-p", "0"),
            "--perm 0 permits neither reading nor writing: give 2 (write), 4 (read) or 6 (both)",
        ),
        (
            ("admin", "updateTopic", "-c", "DefaultCluster", "-t", "x", "-r", "0"),
            "--readQueueNums 0: a topic needs at least one read and one write queue; "
            "to stop reading, use updateTopicPerm -p 2",
        ),
        (
            ("admin", "resetOffsetByTime", "-g", "g", "-t", "x", "-s", "xyz"),
            "--timestamp 'xyz' is not a time: give milliseconds, 2024-02-29#23:59:59:999 or 2024-02-29T23:59:59",
        ),
        (
            ("dashboard", "--add-user", "ada"),
            "no password: run this in a terminal, or write the password to standard input",
        ),
    ],
)
def test_each_error_is_one_line_with_a_remedy(
    arguments: tuple[str, ...], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path))

    assert refused(*arguments) == error


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("admin", "updateBrokerConfig", "-b", "{broker}", "-k", "listenPort", "-v", "1"),
            "{broker}: listenPort cannot be changed while running; set it in the file and restart (NO_PERMISSION, 16)",
        ),
        (
            ("admin", "exportMetadata", "-c", "DefaultCluster", "-f", "/proc/none"),
            "/proc/none/metadata.json cannot be written: No such file or directory; give another directory with -f",
        ),
        (("consume", "nosuch", "-e"), "; `kerolox admin topicList` lists the topics"),
        (("admin", "getConsumerConfig", "-g", "nosuch"), "; `kerolox admin consumerProgress` lists the groups"),
    ],
)
def test_each_error_of_a_cluster_is_one_line_with_a_remedy(
    running: RunningCluster, arguments: tuple[str, ...], error: str
) -> None:
    filled = [word.format(broker=running.broker_addr) for word in arguments]

    assert refused(*filled, "-n", running.namesrv_addr).endswith(error.format(broker=running.broker_addr))
