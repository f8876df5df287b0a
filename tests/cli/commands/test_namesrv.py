"""`kerolox namesrv` and `mqnamesrv` as a user runs them: real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kerolox.namesrv import NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.runtime.text import properties
from kerolox.wire.headers.namesrv import GetNamesrvConfig, PutKVConfig

BIN = Path(sys.executable).parent
COMMANDS = [[str(BIN / "kerolox"), "namesrv"], [str(BIN / "mqnamesrv")]]
# Neither ROCKETMQ_HOME nor NAMESRV_ADDR is set: Java would refuse to start.
PLAIN_ENVIRONMENT = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}


@pytest.fixture(params=COMMANDS, ids=lambda command: Path(command[0]).name)
def command(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


@contextmanager
def started(command: list[str], home: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command until the block ends; yield the process and the address that it printed."""
    process = subprocess.Popen(
        [*command, *arguments],
        env=PLAIN_ENVIRONMENT | {"HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("The Name Server boot success. serializeType=JSON, address 127.0.0.1:")
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


async def test_it_serves_loopback_and_prints_how_to_serve_others(command: list[str], tmp_path: Path) -> None:
    with started(command, tmp_path, "--port", "0") as (process, address):
        assert process.stdout is not None
        hint = process.stdout.readline()
        async with Client() as client:
            reply = await client.call(address, GetNamesrvConfig())

    assert "bindAddress=0.0.0.0" in hint
    assert properties.parse(reply.body.decode())["bindAddress"] == "127.0.0.1"


async def test_a_file_configures_it_and_receives_changes(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\norderMessageEnable=true\nuserKey=kept\n")

    with started(command, tmp_path, "-c", str(file), "-n", "127.0.0.1:9876") as (_, address):
        async with Client() as client:
            reply = await client.call(address, GetNamesrvConfig())
            await client.call(address, PutKVConfig(namespace="N", key="k", value="v"))

    found = properties.parse(reply.body.decode())
    assert (found["orderMessageEnable"], found["userKey"], found["configStorePath"]) == ("true", "kept", str(file))
    assert (tmp_path / "kv.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_cleanly_within_a_second(
    command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    with started(command, tmp_path, "--port", "0") as (process, address):
        async with Client() as client:
            await client.call(address, GetNamesrvConfig())
            before = time.monotonic()
            process.send_signal(number)

            assert process.wait(timeout=5) == 0
            assert time.monotonic() - before < 1


def run(command: list[str], *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments],
        env=PLAIN_ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_prints_its_configuration(command: list[str]) -> None:
    result = run(command, "-p", ROCKETMQ_HOME="/opt/rocketmq")

    printed = properties.parse(result.stdout)
    assert result.returncode == 0
    assert set(printed) == set(NamesrvConfig.keys())
    assert (printed["listenPort"], printed["rocketmqHome"]) == ("9876", "/opt/rocketmq")


def test_help_lists_its_flags(command: list[str]) -> None:
    result = run(command, "-h")

    assert result.returncode == 0
    for flag in ("-c", "-p", "-n", "--bind", "--port"):
        assert flag in result.stdout


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read"),
        ("listenPort=often", "listenPort='often' cannot be used: expected a value of type int"),
        ("listenPort=70000", "expected a number from 0 to 65535"),
        ("listenPort=0\nkvConfigPath=/usr", "kvConfigPath=/usr cannot be read"),
        ("listenPort=0\ntls.server.certPath=/nowhere", "are both needed"),
        ("tls.server.need.client.auth=perhaps", "expected none, optional, require"),
        ("tls.server.mode=maybe", "expected disabled, permissive, enforcing"),
        ("listenPort=0\ntls.server.mode=enforcing", "enforcing needs tls.server.certPath"),
        ("listenPort=0\nbindAddress=192.0.2.1", "cannot listen on 192.0.2.1:0"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(
    command: list[str], tmp_path: Path, content: str | None, complaint: str
) -> None:
    file = tmp_path / "namesrv.conf"
    if content is not None:
        file.write_text(content)

    result = run(command, "-c", str(file), HOME=str(tmp_path))

    assert result.returncode in (253, 255)
    error = result.stderr.splitlines()[-1]
    assert error.startswith("Error: ")
    assert complaint in error
    assert "Traceback" not in result.stderr


def test_the_version_is_printed() -> None:
    assert run([str(BIN / "kerolox")], "--version").stdout.startswith("kerolox 0.")


def test_the_base_imports_neither_spark_nor_arrow_nor_rich() -> None:
    script = "import sys, kerolox.cli.app; print([n for n in ('pyspark', 'pyarrow', 'rich') if n in sys.modules])"

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_bad_arguments_have_javas_exit_code(command: list[str]) -> None:
    assert run(command, "--no-such-flag").returncode == 255
