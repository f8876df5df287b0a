import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerolox.cli.app import main
from kerolox.dashboard.http import users

TYPED = "correct horse\ncorrect horse\n"


def test_a_user_is_added_to_the_given_file(tmp_path: Path) -> None:
    file = tmp_path / "users.json"

    result = CliRunner().invoke(main, ["dashboard", "--users", str(file), "--add-user", "ada"], input=TYPED)

    assert result.exit_code == 0, result.output
    assert f"--users {file}" in result.output
    assert users.load(file).check("ada", "correct horse") is not None


def test_a_user_is_added_to_the_home_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEROLOX_HOME", str(tmp_path))

    result = CliRunner().invoke(main, ["dashboard", "--add-user", "ada", "--reader"], input=TYPED)

    assert result.exit_code == 0, result.output
    assert users.load(tmp_path / "dashboard-users.json").by_name["ada"].is_reader


def test_a_short_password_is_refused_in_one_line(tmp_path: Path) -> None:
    arguments = ["dashboard", "--users", str(tmp_path / "users.json"), "--add-user", "ada"]

    result = CliRunner().invoke(main, arguments, input="abc\nabc\n")

    assert result.exit_code == 1
    assert "password of 3 characters" in result.output


def test_listening_for_other_machines_without_login_is_refused() -> None:
    result = CliRunner().invoke(main, ["dashboard", "--host", "0.0.0.0", "--port", "0"])

    assert result.exit_code == 1
    assert "is reachable from other machines, and there is no login" in result.output


def test_a_trusted_proxy_that_is_not_an_address_is_refused() -> None:
    result = CliRunner().invoke(main, ["dashboard", "--port", "0", "--trusted-proxy", "nginx"])

    assert result.exit_code == 1
    assert "trusted proxy 'nginx' is neither an IP address nor a network" in result.output


def test_it_prints_its_url_and_stops_on_sigterm(tmp_path: Path) -> None:
    code = "from kerolox.cli.app import main; main()"
    command = [sys.executable, "-c", code, "dashboard", "--port", "0", "-n", "127.0.0.1:1"]
    environment = {**os.environ, "KEROLOX_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(f"{found[0]}/static/style.css", timeout=60) as answer:
                assert answer.status == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
