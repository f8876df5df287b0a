"""What a new user runs into: one sentence each, with what mends it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerolox.cli.app import main
from kerolox.testing.plugin import RunningCluster
from tests.cli.ups import FREE_PORTS, kerolox


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def refused(*arguments: str, typed: str | None = None) -> str:
    """Returns the sentence with which a command ends."""
    result = CliRunner().invoke(main, list(arguments), input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code != 0
    told = result.stderr.splitlines()[-1]
    assert told.startswith("Error: ")
    assert "Errno" not in told
    assert "Traceback" not in result.stderr
    return told.removeprefix("Error: ")


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
@pytest.mark.parametrize("bind", ["192.0.2.1", "nonsense.invalid"])
def test_up_names_its_own_flag_where_nobody_can_listen(tmp_path: Path, bind: str, how: tuple[str, ...]) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", bind, *how)

    told = result.stderr.splitlines()[-1]
    assert bind in told
    assert "--bind" in told
    assert "brokerIP1" not in told
    assert "bindAddress" not in told
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_a_store_that_cannot_be_opened_is_told_with_one_remedy(tmp_path: Path, how: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "broker-a").touch()

    result = kerolox(tmp_path, "up", "--no-dashboard", "--data", str(tmp_path / "data"), *FREE_PORTS, *how)

    assert result.stderr.splitlines()[-1].count("--data") == 1


@pytest.mark.parametrize("part", ["conf", "logs"])
def test_a_folder_in_which_nothing_can_be_written_is_told_with_the_flag(tmp_path: Path, part: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / part).touch()

    result = kerolox(tmp_path, "up", "--no-dashboard", "--data", str(tmp_path / "data"), *FREE_PORTS)

    assert "File exists" in result.stderr
    assert result.stderr.splitlines()[-1].endswith(" with --data")


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_up_names_the_flag_for_others(tmp_path: Path, how: tuple[str, ...]) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", "0.0.0.0", *how)

    assert "set --advertise to the address that they reach this machine by" in result.stderr.splitlines()[-1]
    assert "brokerIP1" not in result.stderr


def test_a_port_that_is_taken_leaves_no_store(tmp_path: Path, taken: int) -> None:
    told = refused("broker", "--port", str(taken), "--store", str(tmp_path / "store"))

    assert f"cannot listen on 127.0.0.1:{taken}: " in told
    assert told.endswith("; give another with --port (0 takes a free one), or end what listens there")
    assert not (tmp_path / "store").exists()


def test_a_port_that_is_taken_is_told_of_a_name_server(taken: int) -> None:
    assert refused("namesrv", "--port", str(taken)).endswith(
        "; give another with --port (0 takes a free one), or end what listens there"
    )


def test_a_port_for_metrics_that_is_taken_names_its_flag(taken: int) -> None:
    assert "give another with --metrics-port" in refused("namesrv", "--port", "0", "--metrics-port", str(taken))


def test_an_address_that_is_not_here_names_the_flag() -> None:
    assert "give an address of this machine with --bind" in refused("namesrv", "--port", "0", "--bind", "192.0.2.1")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("broker", "-c", "/nosuch"), "configuration file /nosuch cannot be read: No such file or directory"),
        (("namesrv", "-c", "/nosuch"), "configuration file /nosuch cannot be read: No such file or directory"),
        (
            ("broker", "--port", "0", "--store", "/proc/none"),
            "/proc/none could not be opened: No such file or directory: /proc/none; "
            "give a directory that can be written with --store (storePathRootDir)",
        ),
        (("namesrv", "--port", "often"), "Invalid value for '--port': 'often' is not a valid integer."),
        (
            ("admin", "topicList", "-n", "127.0.0.1:1"),
            "cannot connect to 127.0.0.1:1: connection refused; is it running there? NameServers are given by -n, "
            "or by NAMESRV_ADDR; `kerolox up` starts one",
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
            "--perm 9 would let nobody read or write: give 2 (write), 4 (read) or 6 (both)",
        ),
        (
            ("admin", "updateTopic", "-c", "DefaultCluster", "-t", "x", "-p", "0"),
            "--perm 0 would let nobody read or write: give 2 (write), 4 (read) or 6 (both)",
        ),
        (
            ("admin", "updateTopic", "-c", "DefaultCluster", "-t", "x", "-r", "0"),
            "--readQueueNums 0: a topic has at least one queue to each side; updateTopicPerm -p 2 ends reading",
        ),
        (
            ("admin", "resetOffsetByTime", "-g", "g", "-t", "x", "-s", "xyz"),
            "--timestamp 'xyz' is no time: give milliseconds, 2024-02-29#23:59:59:999 or 2024-02-29T23:59:59",
        ),
        (
            ("dashboard", "--add-user", "ada"),
            "no password: run it in a terminal, or give it as a line on standard input",
        ),
    ],
)
def test_each_refusal_is_a_sentence_with_its_remedy(
    arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path))

    assert refused(*arguments) == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("admin", "updateBrokerConfig", "-b", "{broker}", "-k", "listenPort", "-v", "1"),
            "{broker}: listenPort cannot be changed while running; set it in the file and restart (NO_PERMISSION, 16)",
        ),
        (
            ("admin", "exportMetadata", "-c", "DefaultCluster", "-f", "/proc/none"),
            "/proc/none/metadata.json cannot be written: No such file or directory; give another directory with -f",
        ),
        (("consume", "nosuch", "-e"), "; `kerolox admin topicList` says which there are"),
        (("admin", "getConsumerConfig", "-g", "nosuch"), "; `kerolox admin consumerProgress` says which there are"),
    ],
)
def test_what_a_cluster_refuses_is_a_sentence_with_its_remedy(
    running: RunningCluster, arguments: tuple[str, ...], told: str
) -> None:
    filled = [word.format(broker=running.broker_addr) for word in arguments]

    assert refused(*filled, "-n", running.namesrv_addr).endswith(told.format(broker=running.broker_addr))
