"""`kerolox doctor` on a cluster that is well, and on none."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kerolox.cli import doctor as module
from kerolox.cli.app import main
from kerolox.testing.plugin import RunningCluster


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_cluster_that_is_well_is_told_so(running: RunningCluster) -> None:
    result = doctor("-n", running.namesrv_addr)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert f"ok      NameServer {running.namesrv_addr} answers" in lines
    assert f"ok      broker broker-a/0 at {running.broker_addr} answers" in lines
    assert "ok      the clock of broker broker-a is right" in lines
    assert lines[-1].startswith("0 failed, ")


def test_a_name_server_that_is_missing_fails_and_the_others_are_still_looked_at(running: RunningCluster) -> None:
    result = doctor("-n", f"127.0.0.1:1;{running.namesrv_addr}", "--json")

    findings = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    failed = [finding for finding in findings if finding["level"] == "FAILED"]
    assert [finding["what"].split()[1] for finding in failed] == ["127.0.0.1:1"]
    assert failed[0]["remedy"].startswith("start one (kerolox up)")
    assert any("broker broker-a/0" in finding["what"] for finding in findings)


def test_without_anybody_there_it_says_what_to_start() -> None:
    result = doctor("-n", "127.0.0.1:1")

    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1: connection refused" in result.stdout
    assert "-> start one (kerolox up)" in result.stdout


@pytest.mark.parametrize(
    ("variables", "has_colours"),
    [({"NO_COLOR": "1", "TERM": "xterm"}, False), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": ""}, True)],
)
def test_colours_are_for_terminals_that_are_to_have_them(
    running: RunningCluster, variables: dict[str, str], has_colours: bool
) -> None:
    asked = CliRunner().invoke(main, ["doctor", "-n", running.namesrv_addr], color=True, env=variables)

    assert asked.stdout.startswith("\x1b[32mok" if has_colours else "ok ")


def test_a_folder_that_cannot_be_used_is_one_of_the_findings(
    running: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEROLOX_HOME", "/" + "x" * 300)

    told = doctor("-n", running.namesrv_addr)

    assert told.exit_code == 1
    assert "/up cannot be used: File name too long" in told.stdout
    assert told.stdout.splitlines()[-1].startswith("1 failed, ")


def test_without_anybody_there_it_tells_of_ports_and_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path / "home"))

    told = doctor("-n", "127.0.0.1:1").stdout

    for port in (9876, 10911, 10909, 8080):
        assert f"port {port} (" in told
    assert f"the disk of {tmp_path / 'home' / 'up'} (" in told


def test_something_else_that_listens_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = doctor("-n", address)

    assert result.exit_code == 1
    assert f"something listens at {address}, and does not answer as a NameServer" in result.stdout
    assert "start one" not in result.stdout


def test_it_waits_no_longer_than_three_seconds() -> None:
    assert module._TIMEOUT_SECONDS == 3.0
