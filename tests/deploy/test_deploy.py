"""Deployment files use existing commands and known settings."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from kerolox.broker import Settings
from kerolox.cli.app import main
from kerolox.namesrv import NamesrvConfig
from kerolox.runtime.text import properties

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# Paths of `kerolox` in these files.
_PROGRAM = "/opt/kerolox/bin/kerolox"


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Parse a command line; return the command and its options."""
    context = click.Context(main)
    command = main.get_command(context, words[0])
    assert command is not None, words
    return words[0], command.make_context(words[0], list(words[1:]), parent=context).params


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_an_existing_command(path: Path) -> None:
    program, *words = shlex.split(unit(path)["Service"]["ExecStart"])

    name, _ = parsed(words)
    assert (program, path.stem) == (_PROGRAM, f"kerolox-{name}")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_analyze_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("there is no systemd-analyze, which comes with systemd only")
    # systemd-analyze requires existing programs and users.
    text = path.read_text().replace(_PROGRAM, sys.executable)
    copy = tmp_path / path.name
    copy.write_text(re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE))

    result = subprocess.run([tool, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)

    # It also reports units of the machine.
    assert [line for line in (result.stdout + result.stderr).splitlines() if path.name in line] == []


def test_settings_files_have_known_keys_and_valid_values() -> None:
    broker, namesrv = Settings(), NamesrvConfig()
    of_broker = properties.parse((DEPLOY / "systemd" / "broker.conf").read_text())
    of_namesrv = properties.parse((DEPLOY / "systemd" / "namesrv.conf").read_text())

    broker.update(of_broker)
    namesrv.update(of_namesrv)

    assert (broker.broker.extra, namesrv.extra) == ({}, {})
    # Units may write only to these directories.
    written = [of_broker["storePathRootDir"], of_namesrv["kvConfigPath"]]
    assert all(path.startswith("/var/lib/kerolox/") for path in written)
    assert {unit(path)["Service"]["StateDirectory"] for path in UNITS} == {"kerolox"}


def test_the_guide_installs_every_command_that_units_start() -> None:
    guide = (ROOT / "docs" / "how-to" / "run-with-systemd.md").read_text()
    (extras,) = re.findall(r"pip install .*\.\[([\w,]+)\]", guide)
    _, flags = parsed(shlex.split(unit(DEPLOY / "systemd" / "kerolox-up.service")["Service"]["ExecStart"])[1:])

    assert flags["with_dashboard"]
    assert set(extras.split(",")) == {"compression", "dashboard"}


# Containers


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines]


def test_the_image_copies_exactly_the_files_that_dockerignore_lets_in() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }

    assert ignored[0] == "*"
    assert copied == let_in
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_runs_an_existing_command_and_not_as_root() -> None:
    found = dict(instructions())

    assert json.loads(found["ENTRYPOINT"]) == ["kerolox"]
    name, flags = parsed(json.loads(found["CMD"]))
    assert (name, str(flags["data"]), found["VOLUME"]) == ("up", "/data", "/data")
    assert found["USER"] == "kerolox"


def test_the_image_installs_existing_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text())

    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_compose_starts_brokers_at_the_address_they_advertise() -> None:
    file = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = file["services"]["kerolox"]
    name, flags = parsed(service["command"])

    assert (name, flags["bind"], str(flags["data"])) == ("up", "0.0.0.0", "/data")
    assert service["networks"]["kerolox"]["ipv4_address"] == flags["advertise"]
    assert file["networks"]["kerolox"]["ipam"]["config"] == [{"subnet": "172.30.76.0/24"}]
    assert service["volumes"] == ["data:/data"]
    assert set(file["volumes"]) == {"data"}
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    program, *words = service["healthcheck"]["test"][1:]
    assert program == "kerolox"
    assert parsed(words)[0] == "status"


def test_compose_with_a_dashboard_requires_login_and_publishes_the_served_ports() -> None:
    file = yaml.safe_load((DEPLOY / "compose.dashboard.yaml").read_text())
    service = file["services"]["kerolox"]
    name, flags = parsed(service["command"])

    assert (name, flags["bind"], str(flags["data"]), flags["with_dashboard"]) == ("up", "0.0.0.0", "/data", True)
    (secret,) = service["secrets"]
    assert str(flags["users"]) == f"/run/secrets/{secret}"
    assert file["secrets"] == {secret: {"file": "users.json"}}
    assert "deploy/users.json" in (ROOT / ".gitignore").read_text().splitlines()
    # The fast listener of a broker is at its port - 2.
    served = {flags[f"{part}_port"] for part in ("namesrv", "broker", "dashboard", "metrics")}
    served.add(flags["broker_port"] - 2)
    assert set(service["ports"]) == {f"{flags['advertise']}:{port}:{port}" for port in served}
    assert served == {int(port) for port in dict(instructions())["EXPOSE"].split()}
