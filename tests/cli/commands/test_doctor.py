"""`kerolox doctor` with and without a running cluster."""

import json
import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerolox.cli.app import main
from kerolox.cli.commands import doctor as module
from kerolox.cli.commands.doctor import is_port_free, listening_process
from kerolox.testing.plugin import RunningCluster


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_healthy_cluster_passes_all_checks(running: RunningCluster) -> None:
    result = doctor("-n", running.namesrv_addr)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert f"ok      NameServer {running.namesrv_addr} answers" in lines
    assert f"ok      broker broker-a/0 at {running.broker_addr} answers" in lines
    assert "ok      the clock of broker broker-a agrees with this machine's" in lines
    assert lines[-1].startswith("0 failed, ")


def test_a_missing_name_server_fails_and_the_others_are_still_checked(running: RunningCluster) -> None:
    result = doctor("-n", f"127.0.0.1:1;{running.namesrv_addr}", "--json")

    findings = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    failed = [finding for finding in findings if finding["level"] == "FAILED"]
    assert [finding["what"].split()[1] for finding in failed] == ["127.0.0.1:1"]
    assert failed[0]["remedy"].startswith("start one (kerolox up)")
    assert any("broker broker-a/0" in finding["what"] for finding in findings)


def test_without_a_cluster_it_suggests_starting_one() -> None:
    result = doctor("-n", "127.0.0.1:1")

    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1: connection refused" in result.stdout
    assert "-> start one (kerolox up)" in result.stdout


@pytest.mark.parametrize(
    ("variables", "has_colours"),
    [({"NO_COLOR": "1", "TERM": "xterm"}, False), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": ""}, True)],
)
def test_colours_follow_no_color_and_term(
    running: RunningCluster, variables: dict[str, str], has_colours: bool
) -> None:
    result = CliRunner().invoke(main, ["doctor", "-n", running.namesrv_addr], color=True, env=variables)

    assert result.stdout.startswith("\x1b[32mok" if has_colours else "ok ")


def test_an_unusable_data_folder_is_a_finding(running: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEROLOX_HOME", "/" + "x" * 300)

    result = doctor("-n", running.namesrv_addr)

    assert result.exit_code == 1
    assert "/up cannot be used: File name too long" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("1 failed, ")


def test_without_a_cluster_it_checks_ports_and_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path / "home"))

    printed = doctor("-n", "127.0.0.1:1").stdout

    for port in (9876, 10911, 10909, 8080):
        assert f"port {port} (" in printed
    assert f"the disk of {tmp_path / 'home' / 'up'} (" in printed


def test_another_program_on_the_port_is_reported_after_a_short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = doctor("-n", address)

    assert result.exit_code == 1
    assert f"something listens at {address}, but does not answer like a NameServer" in result.stdout
    assert "start one" not in result.stdout


def test_the_timeout_is_three_seconds() -> None:
    assert module._TIMEOUT_SECONDS == 3.0


def test_the_process_that_uses_a_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        taken, who = is_port_free(port), listening_process(port)

    assert not taken
    assert who is not None
    assert who.startswith(f"process {os.getpid()} (")
    assert is_port_free(port)
    assert listening_process(port) is None


def test_without_proc_no_process_is_named(tmp_path: Path) -> None:
    assert listening_process(1, tmp_path) is None
