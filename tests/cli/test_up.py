"""`kerolox up` as a user runs it: real processes, real folders."""

import os
import re
import signal
import socket
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerolox.admin.sync import AdminClient
from kerolox.cli.app import main
from kerolox.client.sync import Message, Producer
from kerolox.runtime.extras import installing
from tests.cli.ups import FREE_PORTS, eventually, kerolox, running, status

# Each starts several processes, on a machine that may have others to run.
pytestmark = pytest.mark.timeout(400)


def address(said: list[str], what: str) -> str:
    return next(line.removeprefix(f"  {what}").strip() for line in said if line.startswith(f"  {what}"))


def send(namesrv: str, *bodies: bytes) -> None:
    with Producer("shop", namesrv_addr=namesrv) as producer:
        for body in bodies:
            producer.send(Message("orders", body), timeout_seconds=30)


def stored(namesrv: str) -> list[bytes]:
    with AdminClient(namesrv_addr=namesrv) as admin:
        return sorted(message.body for message in admin.messages.read_topic("orders"))


def test_it_says_what_runs_where_and_how_to_stop_it(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard") as (process, said):
        assert re.fullmatch(rf"Kerolox is ready after \d+\.\d\d s \(process {process.pid}\)\.", said[0])
        assert address(said, "NameServer").startswith("127.0.0.1:")
        assert address(said, "Broker broker-a").startswith("127.0.0.1:")
        assert address(said, "Data") == str(tmp_path / "kerolox" / "up")
        assert address(said, "Stop it") == "kerolox down, or Ctrl-C"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_restart_keeps_the_data(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "--no-dashboard") as (process, said):
        send(address(said, "NameServer"), b"one", b"two")
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (0, f"Stopped. All data is kept in {tmp_path / 'kerolox' / 'up'}.\n")
    with running(tmp_path, "--no-dashboard") as (_, said):
        assert stored(address(said, "NameServer")) == [b"one", b"two"]


def test_it_returns_when_it_is_ready_and_is_stopped_by_down(tmp_path: Path) -> None:
    begun = kerolox(tmp_path, "up", "-d", "--no-dashboard", *FREE_PORTS)
    try:
        told = status(tmp_path)
        send(told["namesrv"], b"one")
        assert stored(told["namesrv"]) == [b"one"]
    finally:
        ended = kerolox(tmp_path, "down")

    assert begun.stdout.startswith("Kerolox is ready after ")
    assert begun.stdout.splitlines()[-1].split() == ["Stop", "it", "kerolox", "down"]
    assert (begun.returncode, begun.stderr, told["running"]) == (0, "", True)
    assert ended.stdout.startswith(f"Stopped process {told['pid']} in ")
    assert "registered with NameServer" in (tmp_path / "kerolox" / "up" / "logs" / "up.log").read_text()


def test_a_warning_does_not_keep_it_from_being_ready(tmp_path: Path) -> None:
    flags = ("--bind", "0.0.0.0", "--advertise", "192.0.2.1", "--no-dashboard", *FREE_PORTS)
    try:
        begun = kerolox(tmp_path, "up", "-d", *flags)
    finally:
        kerolox(tmp_path, "down")

    assert begun.returncode == 0
    assert "brokerIP1=192.0.2.1 is no address of this machine" in begun.stdout
    assert "\nKerolox is ready after " in begun.stdout
    # Clients are told where to go, not where it listens.
    assert address(begun.stdout.splitlines(), "NameServer").startswith("192.0.2.1:")


def test_a_broker_process_that_dies_is_started_again(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--brokers", "2") as (process, said):
        assert [line.split()[1] for line in said if line.startswith("  Broker")] == ["broker-a", "broker-b"]
        first = status(tmp_path)["brokers"][0]
        bodies = [b"%02d" % number for number in range(20)]
        send(status(tmp_path)["namesrv"], *bodies)

        os.kill(first["pid"], signal.SIGKILL)
        eventually(lambda: status(tmp_path)["brokers"][0]["restarts"] == 1)
        eventually(lambda: status(tmp_path)["brokers"][0]["state"] == "running")

        told = status(tmp_path)
        assert told["brokers"][0]["pid"] not in (first["pid"], process.pid)
        assert told["brokers"][1]["restarts"] == 0
        with AdminClient(namesrv_addr=told["namesrv"]) as admin:
            assert sorted(admin.cluster.info().broker_addr_table) == ["broker-a", "broker-b"]
        assert stored(told["namesrv"]) == bodies
        process.terminate()
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert not any(is_alive(broker["pid"]) for broker in told["brokers"])


def test_brokers_do_not_outlive_one_that_was_killed(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--brokers", "1") as (process, _):
        (broker,) = status(tmp_path)["brokers"]

        process.kill()
        process.communicate(timeout=60)

        eventually(lambda: not is_alive(broker["pid"]))
    assert status(tmp_path) == {"running": False, "data": str(tmp_path / "kerolox" / "up")}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # One that nobody has waited for yet has ended all the same.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_folder_is_used_once_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard") as (process, _):
        for how in ((), ("-d",)):
            second = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, *how)

            assert second.returncode == 253
            assert second.stderr == (
                f"Error: {tmp_path / 'kerolox' / 'up'} is used by another `kerolox up` (process {process.pid}): "
                "stop it with `kerolox down`, or name another folder with --data\n"
            )


@pytest.mark.parametrize("flag", ["--namesrv-port", "--broker-port"])
@pytest.mark.parametrize("how", [(), ("-d",), ("--brokers", "1")])
def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path, flag: str, how: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, flag, str(port), *how)

    assert result.returncode == 253
    assert f"cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert result.stderr.splitlines()[-1].endswith("--dashboard-port (0 takes a free one)")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_an_address_that_clients_cannot_use_is_told(tmp_path: Path, how: tuple[str, ...]) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", "0.0.0.0", *how)

    assert result.returncode == 255
    assert "set --advertise to the address that they reach this machine by" in result.stderr.splitlines()[-1]


def test_settings_in_its_folder_hold(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard"):
        pass
    file = tmp_path / "kerolox" / "up" / "conf" / "broker-a.conf"
    file.write_text(file.read_text() + "autoCreateTopicEnable=false\n")

    with (
        running(tmp_path, "--no-dashboard") as (_, said),
        AdminClient(namesrv_addr=address(said, "NameServer")) as admin,
    ):
        settings = admin.configuration.broker(address(said, "Broker broker-a"))

    assert settings["autoCreateTopicEnable"] == "false"


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_a_broker_that_is_to_keep_people_out_is_told_not_to_be_had(tmp_path: Path, how: tuple[str, ...]) -> None:
    file = tmp_path / "kerolox" / "up" / "conf" / "broker-a.conf"
    file.parent.mkdir(parents=True)
    file.write_text("aclEnable=true\n")

    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, *how)

    assert result.returncode == 255
    assert "aclEnable=true cannot be had: this broker has no access control" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_who_starts_fewer_brokers_is_told_whose_messages_are_not_served(tmp_path: Path, how: tuple[str, ...]) -> None:
    queues = tmp_path / "kerolox" / "up" / "broker-c" / "consumequeue"
    queues.mkdir(parents=True)
    with running(tmp_path, "--no-dashboard", *how) as (_, said):
        assert said[0].startswith("Kerolox is ready")
    (queues / "orders").mkdir()

    with running(tmp_path, "--no-dashboard", *how) as (_, said):
        assert said[0].endswith("messages of broker-c are not served: `kerolox up --brokers 3` does")


@pytest.mark.parametrize(("how", "file"), [((), "broker-a"), (("--brokers", "1"), "namesrv")])
def test_log_lines_are_as_the_files_of_settings_say(tmp_path: Path, how: tuple[str, ...], file: str) -> None:
    folder = tmp_path / "kerolox" / "up"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / f"{file}.conf").write_text("logFormat=json\nlogFileSizeMax=4096\nlogFilesMax=2\n")
    # As much as a file may have.
    (folder / "logs").mkdir()
    (folder / "logs" / "up.log").write_text("x" * 4096)

    with running(tmp_path, "--no-dashboard", *how) as (process, _):
        process.terminate()
        process.communicate(timeout=60)

    assert (folder / "logs" / "up.log.1").read_text() == "x" * 4096
    assert (folder / "logs" / "up.log").read_text().startswith('{"time":"')


def test_ctrl_c_ends_what_is_to_be_left_running_if_it_has_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    script = f"""
import os, pathlib, signal
pathlib.Path({str(file)!r}).write_text(str(os.getpid()))
os.kill(os.getppid(), signal.SIGINT)
signal.pause()
"""
    monkeypatch.setattr("kerolox.cli.up.our_command", lambda *_: [sys.executable, "-c", script])

    ended = CliRunner().invoke(main, ["up", "-d", "--data", str(tmp_path / "data")])

    assert (ended.exit_code, ended.stderr.strip()) == (1, "Aborted!")
    assert not is_alive(int(file.read_text()))
    # Nor is anybody waiting to kill it, or whoever has its number by then.
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers if timer.function.__name__ == "kill")


def test_log_lines_may_be_json(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--log-format", "json") as (process, _):
        process.terminate()
        process.communicate(timeout=60)

    lines = (tmp_path / "kerolox" / "up" / "logs" / "up.log").read_text().splitlines()
    assert lines
    assert all(line.startswith('{"time":"') for line in lines)


@pytest.mark.parametrize("how", [(), ("--brokers", "1")])
def test_metrics_are_told_where_asked_for(tmp_path: Path, how: tuple[str, ...]) -> None:
    with running(tmp_path, "--no-dashboard", "--metrics-port", "0", *how) as (_, said):
        urls = [line.split()[1] for line in said if line.startswith("  Metrics")]
        pages = [urllib.request.urlopen(url, timeout=60).read() for url in urls]

    assert len(pages) == 1 + len(how) // 2
    assert b"kerolox_namesrv_brokers{" in pages[0]
    assert b"rocketmq_broker_permission{" in pages[-1]


def test_the_dashboard_shows_the_cluster(tmp_path: Path) -> None:
    with running(tmp_path) as (process, said):
        url = address(said, "Dashboard")
        page = urllib.request.urlopen(url, timeout=60).read().decode()
        process.terminate()
        output, _ = process.communicate(timeout=60)

    assert url.startswith("http://127.0.0.1:")
    assert "broker-a" in page
    assert (process.returncode, output.count("\n")) == (0, 1)


def test_a_port_that_the_dashboard_cannot_have_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kerolox(tmp_path, "up", *FREE_PORTS, "--dashboard-port", str(port))

    assert result.returncode == 253
    assert f"the dashboard cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert "--port," not in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_dashboard_without_its_packages_is_told_of(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text(
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'starlette' else find(name, *rest)\n"
    )
    path = os.pathsep.join([str(missing), *filter(None, [os.environ.get("PYTHONPATH")])])

    with running(tmp_path, PYTHONPATH=path) as (_, said):
        assert address(said, "Dashboard") == f"not installed: {installing('dashboard')}"
