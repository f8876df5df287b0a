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
from kerolox.runtime.optional_deps import install_command
from tests.cli.ups import FREE_PORTS, eventually, kerolox, running, status

# Each test starts several processes, which takes long on a loaded machine.
pytestmark = pytest.mark.timeout(400)


def address(lines: list[str], name: str) -> str:
    return next(line.removeprefix(f"  {name}").strip() for line in lines if line.startswith(f"  {name}"))


def send(namesrv: str, *bodies: bytes) -> None:
    with Producer("shop", namesrv_addr=namesrv) as producer:
        for body in bodies:
            producer.send(Message("orders", body), timeout_seconds=30)


def stored(namesrv: str) -> list[bytes]:
    with AdminClient(namesrv_addr=namesrv) as admin:
        return sorted(message.body for message in admin.messages.read_topic("orders"))


def test_it_prints_addresses_and_how_to_stop_it(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard") as (process, lines):
        assert re.fullmatch(rf"Kerolox is ready after \d+\.\d\d s \(process {process.pid}\)\.", lines[0])
        assert address(lines, "NameServer").startswith("127.0.0.1:")
        assert address(lines, "Broker broker-a").startswith("127.0.0.1:")
        assert address(lines, "Data") == str(tmp_path / "kerolox" / "up")
        assert address(lines, "Stop it") == "kerolox down, or Ctrl-C"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_restart_keeps_the_data(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "--no-dashboard") as (process, lines):
        send(address(lines, "NameServer"), b"one", b"two")
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (0, f"Stopped. All data is kept in {tmp_path / 'kerolox' / 'up'}.\n")
    with running(tmp_path, "--no-dashboard") as (_, lines):
        assert stored(address(lines, "NameServer")) == [b"one", b"two"]


def test_detached_it_returns_when_ready_and_is_stopped_by_down(tmp_path: Path) -> None:
    started = kerolox(tmp_path, "up", "-d", "--no-dashboard", *FREE_PORTS)
    try:
        state = status(tmp_path)
        send(state["namesrv"], b"one")
        assert stored(state["namesrv"]) == [b"one"]
    finally:
        stopped = kerolox(tmp_path, "down")

    assert started.stdout.startswith("Kerolox is ready after ")
    assert started.stdout.splitlines()[-1].split() == ["Stop", "it", "kerolox", "down"]
    assert (started.returncode, started.stderr, state["running"]) == (0, "", True)
    assert stopped.stdout.startswith(f"Stopped process {state['pid']} in ")
    assert "registered with NameServer" in (tmp_path / "kerolox" / "up" / "logs" / "up.log").read_text()


def test_a_warning_does_not_keep_it_from_being_ready(tmp_path: Path) -> None:
    flags = ("--bind", "0.0.0.0", "--advertise", "192.0.2.1", "--no-dashboard", *FREE_PORTS)
    try:
        started = kerolox(tmp_path, "up", "-d", *flags)
    finally:
        kerolox(tmp_path, "down")

    assert started.returncode == 0
    assert "brokerIP1=192.0.2.1 is not an address of this machine" in started.stdout
    assert "\nKerolox is ready after " in started.stdout
    # The address is the advertised one, not the one it listens on.
    assert address(started.stdout.splitlines(), "NameServer").startswith("192.0.2.1:")


def test_a_broker_process_that_dies_is_restarted(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--brokers", "2") as (process, lines):
        assert [line.split()[1] for line in lines if line.startswith("  Broker")] == ["broker-a", "broker-b"]
        first = status(tmp_path)["brokers"][0]
        bodies = [b"%02d" % number for number in range(20)]
        send(status(tmp_path)["namesrv"], *bodies)

        os.kill(first["pid"], signal.SIGKILL)
        eventually(lambda: status(tmp_path)["brokers"][0]["restarts"] == 1)
        eventually(lambda: status(tmp_path)["brokers"][0]["state"] == "running")

        state = status(tmp_path)
        assert state["brokers"][0]["pid"] not in (first["pid"], process.pid)
        assert state["brokers"][1]["restarts"] == 0
        with AdminClient(namesrv_addr=state["namesrv"]) as admin:
            assert sorted(admin.cluster.info().broker_addr_table) == ["broker-a", "broker-b"]
        assert stored(state["namesrv"]) == bodies
        process.terminate()
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert not any(is_alive(broker["pid"]) for broker in state["brokers"])


def test_broker_processes_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--brokers", "1") as (process, _):
        (broker,) = status(tmp_path)["brokers"]

        process.kill()
        process.communicate(timeout=60)

        eventually(lambda: not is_alive(broker["pid"]))
    assert status(tmp_path) == {"running": False, "data": str(tmp_path / "kerolox" / "up")}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie has ended.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard") as (process, _):
        for extra_flags in ((), ("-d",)):
            second = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, *extra_flags)

            assert second.returncode == 253
            assert second.stderr == (
                f"Error: {tmp_path / 'kerolox' / 'up'} is used by another `kerolox up` (process {process.pid}): "
                "stop it with `kerolox down`, or name another folder with --data\n"
            )


@pytest.mark.parametrize("flag", ["--namesrv-port", "--broker-port"])
@pytest.mark.parametrize("extra_flags", [(), ("-d",), ("--brokers", "1")])
def test_a_taken_port_is_reported_with_a_remedy(tmp_path: Path, flag: str, extra_flags: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, flag, str(port), *extra_flags)

    assert result.returncode == 253
    assert f"cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert result.stderr.splitlines()[-1].endswith("--dashboard-port (0 takes a free one)")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_an_advertised_address_that_clients_cannot_use_is_refused(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, "--bind", "0.0.0.0", *extra_flags)

    assert result.returncode == 255
    assert "set --advertise to the address at which clients reach this machine" in result.stderr.splitlines()[-1]


def test_settings_in_its_folder_are_used(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard"):
        pass
    file = tmp_path / "kerolox" / "up" / "conf" / "broker-a.conf"
    file.write_text(file.read_text() + "autoCreateTopicEnable=false\n")

    with (
        running(tmp_path, "--no-dashboard") as (_, lines),
        AdminClient(namesrv_addr=address(lines, "NameServer")) as admin,
    ):
        settings = admin.configuration.broker(address(lines, "Broker broker-a"))

    assert settings["autoCreateTopicEnable"] == "false"


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_acl_enable_is_refused_at_startup(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    file = tmp_path / "kerolox" / "up" / "conf" / "broker-a.conf"
    file.parent.mkdir(parents=True)
    file.write_text("aclEnable=true\n")

    result = kerolox(tmp_path, "up", "--no-dashboard", *FREE_PORTS, *extra_flags)

    assert result.returncode == 255
    assert "aclEnable=true is not supported: this broker has no access control" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_starting_fewer_brokers_warns_about_unserved_messages(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    queues = tmp_path / "kerolox" / "up" / "broker-c" / "consumequeue"
    queues.mkdir(parents=True)
    with running(tmp_path, "--no-dashboard", *extra_flags) as (_, lines):
        assert lines[0].startswith("Kerolox is ready")
    (queues / "orders").mkdir()

    with running(tmp_path, "--no-dashboard", *extra_flags) as (_, lines):
        assert lines[0].endswith("messages of broker-c are not served: use `kerolox up --brokers 3`")


@pytest.mark.parametrize(("extra_flags", "file"), [((), "broker-a"), (("--brokers", "1"), "namesrv")])
def test_logging_follows_the_configuration_files(tmp_path: Path, extra_flags: tuple[str, ...], file: str) -> None:
    folder = tmp_path / "kerolox" / "up"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / f"{file}.conf").write_text("logFormat=json\nlogFileSizeMax=4096\nlogFilesMax=2\n")
    # As large as logFileSizeMax allows.
    (folder / "logs").mkdir()
    (folder / "logs" / "up.log").write_text("x" * 4096)

    with running(tmp_path, "--no-dashboard", *extra_flags) as (process, _):
        process.terminate()
        process.communicate(timeout=60)

    assert (folder / "logs" / "up.log.1").read_text() == "x" * 4096
    assert (folder / "logs" / "up.log").read_text().startswith('{"time":"')


def test_ctrl_c_during_a_detached_start_ends_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pid"
    script = f"""
import os, pathlib, signal
pathlib.Path({str(file)!r}).write_text(str(os.getpid()))
os.kill(os.getppid(), signal.SIGINT)
signal.pause()
"""
    monkeypatch.setattr("kerolox.cli.commands.up.our_command", lambda *_: [sys.executable, "-c", script])

    result = CliRunner().invoke(main, ["up", "-d", "--data", str(tmp_path / "data")])

    assert (result.exit_code, result.stderr.strip()) == (1, "Aborted!")
    assert not is_alive(int(file.read_text()))
    # No timer is left that would kill it, or another process that has reused its number.
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers if timer.function.__name__ == "kill")


def test_log_lines_may_be_json(tmp_path: Path) -> None:
    with running(tmp_path, "--no-dashboard", "--log-format", "json") as (process, _):
        process.terminate()
        process.communicate(timeout=60)

    lines = (tmp_path / "kerolox" / "up" / "logs" / "up.log").read_text().splitlines()
    assert lines
    assert all(line.startswith('{"time":"') for line in lines)


@pytest.mark.parametrize("extra_flags", [(), ("--brokers", "1")])
def test_metrics_are_served_if_a_port_is_given(tmp_path: Path, extra_flags: tuple[str, ...]) -> None:
    with running(tmp_path, "--no-dashboard", "--metrics-port", "0", *extra_flags) as (_, lines):
        urls = [line.split()[1] for line in lines if line.startswith("  Metrics")]
        pages = [urllib.request.urlopen(url, timeout=60).read() for url in urls]

    assert len(pages) == 1 + len(extra_flags) // 2
    assert b"kerolox_namesrv_brokers{" in pages[0]
    assert b"rocketmq_broker_permission{" in pages[-1]


def test_the_dashboard_shows_the_cluster(tmp_path: Path) -> None:
    with running(tmp_path) as (process, lines):
        url = address(lines, "Dashboard")
        page = urllib.request.urlopen(url, timeout=60).read().decode()
        process.terminate()
        output, _ = process.communicate(timeout=60)

    assert url.startswith("http://127.0.0.1:")
    assert "broker-a" in page
    assert (process.returncode, output.count("\n")) == (0, 1)


def test_a_taken_dashboard_port_is_reported_with_a_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kerolox(tmp_path, "up", *FREE_PORTS, "--dashboard-port", str(port))

    assert result.returncode == 253
    assert f"the dashboard cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert "--port," not in result.stderr
    assert result.stderr.count("\n") == 1


def test_missing_dashboard_packages_are_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text(
        "import importlib.util as u, sys\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'starlette' else find(name, *rest)\n"
    )
    path = os.pathsep.join([str(missing), *filter(None, [os.environ.get("PYTHONPATH")])])

    with running(tmp_path, PYTHONPATH=path) as (_, lines):
        assert address(lines, "Dashboard") == f"not installed: {install_command('dashboard')}"
