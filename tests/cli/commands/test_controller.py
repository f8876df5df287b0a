"""`kerolox controller` and `mqcontroller`, and a controller inside a NameServer, as a user runs them."""

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kerolox.controller import ControllerConfig
from kerolox.remoting.client import Client
from kerolox.runtime.text import properties
from kerolox.wire.headers.controller import GetControllerConfig, GetControllerMetadata, UpdateControllerConfig
from kerolox.wire.headers.namesrv import GetNamesrvConfig

ROOT = Path(__file__).parents[3]
PLAIN_ENVIRONMENT = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
KEROLOX = [sys.executable, "-m", "kerolox"]
BOOTED = "The Controller Server boot success. serializeType=JSON, address 127.0.0.1:"


@contextmanager
def started(home: Path, *arguments: str, lines: int = 2) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run the command until the block ends; yield the process and its first lines."""
    process = subprocess.Popen(
        [*KEROLOX, *arguments],
        env=PLAIN_ENVIRONMENT | {"HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, [process.stdout.readline() for _ in range(lines)]
    finally:
        process.kill()
        process.communicate()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*KEROLOX, *arguments],
        env=PLAIN_ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as it:
        port: int = it.getsockname()[1]
        return port


def test_mqcontroller_is_the_same_command() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts["mqcontroller"] == "kerolox.cli.commands.controller:controller"


async def test_it_serves_loopback_and_prints_how_to_serve_others(tmp_path: Path) -> None:
    with started(tmp_path, "controller", "--port", "0", "--store", str(tmp_path / "groups")) as (process, lines):
        assert lines[0].startswith(BOOTED)
        assert "bindAddress=0.0.0.0" in lines[1]
        async with Client() as client:
            reply = await client.call(lines[0].split()[-1], GetControllerMetadata())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0

    assert reply.fields.is_leader
    assert (tmp_path / "groups").is_dir()


async def test_a_file_configures_it_and_receives_changes(tmp_path: Path) -> None:
    file = tmp_path / "controller.conf"
    file.write_text(f"controllerDLegerPeers=n0-127.0.0.1:{free_port()}\ncontrollerStorePath={tmp_path}/groups\n")
    with started(tmp_path, "controller", "-c", str(file)) as (_, lines):
        async with Client() as client:
            address = lines[0].split()[-1]
            await client.call(address, UpdateControllerConfig(), b"scanInactiveMasterInterval=1234")
            shown = properties.parse((await client.call(address, GetControllerConfig())).body.decode())

    assert shown["configStorePath"] == str(file)
    assert properties.parse(file.read_text())["scanInactiveMasterInterval"] == "1234"


async def test_a_name_server_runs_a_controller_in_its_process(tmp_path: Path) -> None:
    port = free_port()
    file = tmp_path / "namesrv.conf"
    file.write_text(
        f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\nenableControllerInNamesrv=true\n"
        f"controllerDLegerPeers=n0-127.0.0.1:{port}\ncontrollerStorePath={tmp_path}/groups\n"
    )
    before = file.read_text()
    with started(tmp_path, "namesrv", "-c", str(file), lines=3) as (process, lines):
        async with Client() as client:
            assert lines[2].startswith(BOOTED)
            await client.call(lines[0].split()[-1], GetNamesrvConfig())
            reply = await client.call(f"127.0.0.1:{port}", GetControllerMetadata())
            await client.call(f"127.0.0.1:{port}", UpdateControllerConfig(), b"scanInactiveMasterInterval=1234")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0

    assert reply.fields.controller_leader_address == f"127.0.0.1:{port}"
    assert file.read_text() == before, "it is the NameServer's file"


def test_it_prints_its_configuration() -> None:
    result = run("controller", "-p", ROCKETMQ_HOME="/opt/rocketmq")

    printed = properties.parse(result.stdout)
    assert result.returncode == 0
    assert set(printed) == set(ControllerConfig.keys())
    assert (printed["listenPort"], printed["rocketmqHome"]) == ("9878", "/opt/rocketmq")


@pytest.mark.parametrize(
    ("command", "content", "complaint"),
    [
        ("controller", "controllerType=paxos", "expected DLedger, jRaft"),
        ("controller", "controllerDLegerPeers=n0-h:1;n1-h:2", "set controllerStorage=etcd and etcdEndpoints"),
        ("controller", "bindAddress=0.0.0.0", "needs controllerDLegerPeers"),
        ("controller", "listenPort=0\ncontrollerStorePath=/dev/null", "controllerStorePath=/dev/null cannot be used"),
        ("controller", "listenPort=0\nbindAddress=192.0.2.1", "cannot listen on 192.0.2.1:0"),
        ("namesrv", "listenPort=0\nenableControllerInNamesrv=true\ncontrollerStorage=etcd", "needs etcdEndpoints"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(tmp_path: Path, command: str, content: str, complaint: str) -> None:
    file = tmp_path / "server.conf"
    file.write_text(content)

    result = run(command, "-c", str(file), HOME=str(tmp_path))

    assert result.returncode in (253, 255)
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert complaint in error
    assert "Traceback" not in result.stderr
