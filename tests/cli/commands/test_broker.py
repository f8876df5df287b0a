"""`kerolox broker` and `mqbroker` as a user runs them: real processes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kerolox.broker import Settings
from kerolox.cli.commands.broker import broker
from kerolox.errors import ConfigurationError, TopicNotFound
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.client import Client
from kerolox.runtime.service import Supervisor
from kerolox.runtime.text import properties
from kerolox.store.config import StoreConfig
from kerolox.store.store import Store
from kerolox.wire.headers.broker import GetBrokerConfig, UpdateBrokerConfig
from kerolox.wire.headers.namesrv import GetRouteInfoByTopic
from tests.broker.brokers import SMALL, sending
from tests.broker.name_servers import FakeNameServer

# The functions that the scripts `kerolox` and `mqbroker` call.
COMMANDS = {
    "kerolox": [sys.executable, "-c", "from kerolox.cli.app import main; main()", "broker"],
    "mqbroker": [sys.executable, "-c", "from kerolox.cli.commands.broker import broker; broker()"],
}
# Neither ROCKETMQ_HOME nor NAMESRV_ADDR is set: Java would refuse to start.
PLAIN_ENVIRONMENT = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "PYTHONPATH")}
BROKER = COMMANDS["mqbroker"]


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> list[str]:
    return COMMANDS[request.param]


@pytest.fixture
async def namesrv(tmp_path: Path) -> AsyncIterator[NameServer]:
    directory = tmp_path / "namesrv"
    config = NamesrvConfig(
        listen_port=0, kv_config_path=directory / "kv.json", config_store_path=directory / "namesrv.properties"
    )
    async with NameServer(config) as running:
        yield running


def configured(directory: Path, **changes: str) -> Path:
    file = directory / "broker.conf"
    settings = {**SMALL, "storePathRootDir": str(directory / "store"), **changes}
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


@asynccontextmanager
async def started(
    command: list[str], home: Path, *arguments: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run the command until the block ends; yield the process and the address that it printed."""
    with (home / "log.txt").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            env=PLAIN_ENVIRONMENT | {"HOME": str(home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("The broker[broker-a, 127.0.0.1:"), (line, (home / "log.txt").read_text())
        assert "] boot success. serializeType=JSON" in line
        yield process, line.partition(", ")[2].partition("]")[0]
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def exit_code(process: asyncio.subprocess.Process, seconds: float = 10) -> int:
    async with asyncio.timeout(seconds):
        return await process.wait()


def run(command: list[str], *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments],
        env=PLAIN_ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_it_is_registered_until_sigterm(command: list[str], tmp_path: Path, namesrv: NameServer) -> None:
    file = configured(tmp_path)
    async with Client() as client:
        async with started(command, tmp_path, "-c", str(file), "-n", namesrv.address) as (process, address):
            assert [where.address for where in namesrv.table.live] == [address]
            for number in range(50):
                await client.call(address, sending("orders"), b"%d" % number)
            process.send_signal(signal.SIGTERM)

            assert await exit_code(process, seconds=10) == 0
        with pytest.raises(TopicNotFound):
            await client.call(namesrv.address, GetRouteInfoByTopic(topic="orders"))

    assert not (tmp_path / "store" / "abort").exists()
    store = Store(StoreConfig.from_properties(properties.parse(file.read_text())))
    async with Supervisor(store):
        queue = store.queues.get("orders", 0)
        assert queue is not None
        assert queue.max_offset == 50


async def test_unreachable_name_servers_do_not_delay_start_and_stop(tmp_path: Path) -> None:
    async with FakeNameServer() as hanging:
        hanging.hangs = True
        names = f"127.0.0.1:1;{hanging.address}"
        async with started(BROKER, tmp_path, "-c", str(configured(tmp_path)), "-n", names) as (process, _):
            process.send_signal(signal.SIGINT)

            assert await exit_code(process) == 0
    log = (tmp_path / "log.txt").read_text()
    assert f"could not register with any of the NameServers {names}" in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_start_closes_what_was_opened(
    command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    async with FakeNameServer() as hanging:
        hanging.hangs = True
        arguments = ("-c", str(configured(tmp_path)), "-n", hanging.address)
        process = await asyncio.create_subprocess_exec(
            *(*command, *arguments),
            env=PLAIN_ENVIRONMENT | {"HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        # The broker prints that it has started only after this NameServer has answered.
        async with asyncio.timeout(60):
            while not hanging.headers:
                await asyncio.sleep(0.01)
        assert (tmp_path / "store" / "abort").exists()

        process.send_signal(number)

        async with asyncio.timeout(10):
            out, log = await process.communicate()
    assert (process.returncode, out) == (0, b""), log.decode()
    assert b"Traceback" not in log
    assert not (tmp_path / "store" / "abort").exists()


async def test_remote_configuration_changes_survive_a_restart(tmp_path: Path) -> None:
    file = configured(tmp_path, userKey="kept")
    async with Client() as client:
        async with started(BROKER, tmp_path, "-c", str(file)) as (process, address):
            await client.call(address, UpdateBrokerConfig(), b"traceOn=false")
            process.terminate()
            await exit_code(process)
        async with started(BROKER, tmp_path, "-c", str(file)) as (_, address):
            found = properties.parse((await client.call(address, GetBrokerConfig())).body.decode())

    assert (found["traceOn"], found["userKey"], found["brokerConfigPath"]) == ("false", "kept", str(file))


async def test_it_listens_on_the_vip_channel(tmp_path: Path) -> None:
    """Java's producers use listenPort - 2 when vipChannelEnabled is set."""
    port = free_port()
    async with started(BROKER, tmp_path, "-c", str(configured(tmp_path)), "--port", str(port)) as (_, address):
        assert address == f"127.0.0.1:{port}"
        async with Client() as client:
            assert (await client.call(f"127.0.0.1:{port - 2}", sending("orders"), b"body")).fields.queue_offset == 0


def free_port() -> int:
    """Return a port that is free together with the one two below it."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port - 2))
            except OSError:
                continue
            return port


def test_it_prints_its_configuration(command: list[str], tmp_path: Path) -> None:
    result = run(command, "-p", HOME=str(tmp_path), ROCKETMQ_HOME="/opt/rocketmq", NAMESRV_ADDR="10.0.0.1:9876")

    printed = properties.parse(result.stdout)
    assert result.returncode == 0
    assert set(printed) == set(Settings().to_properties())
    assert (printed["listenPort"], printed["rocketmqHome"]) == ("10911", "/opt/rocketmq")
    assert (printed["namesrvAddr"], printed["storePathRootDir"]) == ("10.0.0.1:9876", f"{tmp_path}/store")


def test_it_prints_the_main_settings(command: list[str], tmp_path: Path) -> None:
    result = run(command, "-m", "-c", str(configured(tmp_path)), "-n", "10.0.0.1:9876")

    printed = properties.parse(result.stdout)
    assert result.returncode == 0
    assert (printed["brokerName"], printed["namesrvAddr"]) == ("broker-a", "10.0.0.1:9876")
    assert len(printed) < 20


def test_help_lists_its_flags(command: list[str]) -> None:
    result = run(command, "-h")

    assert result.returncode == 0
    for flag in ("-c", "-p", "-m", "-n", "--bind", "--port", "--store"):
        assert flag in result.stdout


@pytest.mark.parametrize(
    ("changes", "code", "complaint"),
    [
        ({"listenPort": "often"}, 255, "listenPort='often' cannot be used: expected a value of type int"),
        ({"brokerPermission": "99"}, 255, "expected a number from 0 to 6"),
        ({"flushDiskType": "NEVER"}, 255, "expected ASYNC_FLUSH, SYNC_FLUSH"),
        ({"brokerIP1": "a.example"}, 255, "brokerIP1='a.example' is not an IP address"),
        ({"brokerIP1": "0.0.0.0"}, 255, "is not an address that clients can connect to"),
        ({"bindAddress": "0.0.0.0"}, 255, "they cannot reach brokerIP1=127.0.0.1"),
        ({"brokerIP1": "192.0.2.1"}, 255, "bindAddress=127.0.0.1 accepts only local connections"),
        ({"namesrvAddr": "nowhere"}, 255, "'nowhere' is not an address: expected host:port"),
        ({"storePathRootDir": "/proc/none"}, 253, "/proc/none"),
        ({"tls.server.certPath": "/nowhere"}, 255, "are both needed"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(
    tmp_path: Path, changes: dict[str, str], code: int, complaint: str
) -> None:
    result = CliRunner().invoke(broker, ["-c", str(configured(tmp_path, **changes))])

    assert result.exit_code == code
    assert complaint in result.output
    assert result.output.startswith("Error: ")
    assert isinstance(result.exception, SystemExit)


def test_unknown_keys_in_its_file_are_logged(tmp_path: Path) -> None:
    # It exits at once because a slave needs an id.
    file = configured(tmp_path, listenPrt="1", mapedFileSizeCommitLog="1048576", brokerRole="SLAVE")

    result = run(BROKER, "-c", str(file))

    assert result.returncode == 255
    (warning,) = [line for line in result.stderr.splitlines() if "unknown keys" in line]
    assert warning.endswith(f"{file}: unknown keys have no effect: listenPrt")


def test_deprecated_keys_are_printed_under_the_current_name(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("mapedFileSizeCommitLog=1048576\nmapedFileSizeConsumeQueue=2000\n")

    printed = properties.parse(run(BROKER, "-c", str(file), "-p").stdout)

    assert (printed["mappedFileSizeCommitLog"], printed["mappedFileSizeConsumeQueue"]) == ("1048576", "2000")
    assert "mapedFileSizeCommitLog" not in printed


def test_a_missing_configuration_file_is_reported(tmp_path: Path) -> None:
    result = run(BROKER, "-c", str(tmp_path / "missing.conf"))

    assert (result.returncode, "cannot be read" in result.stderr) == (255, True)


def test_bad_arguments_have_javas_exit_code(command: list[str]) -> None:
    assert run(command, "--no-such-flag").returncode == 255


def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(BROKER, "-c", str(configured(tmp_path)), "--port", str(port))

    assert result.returncode == 253
    assert f"cannot listen on 127.0.0.1:{port}: " in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_store_in_use_is_reported(tmp_path: Path) -> None:
    file = configured(tmp_path)
    async with started(BROKER, tmp_path, "-c", str(file)):
        result = await asyncio.to_thread(run, BROKER, "-c", str(file))

    assert result.returncode == 253
    assert "another process has the store open" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_damaged_table_is_reported_and_not_overwritten(tmp_path: Path) -> None:
    file = configured(tmp_path)
    damaged = tmp_path / "store" / "config" / "topics.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{ torn")

    result = run(BROKER, "-c", str(file))

    assert result.returncode == 253
    assert "topics.json" in result.stderr
    assert "Traceback" not in result.stderr
    assert damaged.read_text() == "{ torn"


@pytest.mark.parametrize("key", ["aclEnable", "authenticationEnabled", "authorizationEnabled"])
def test_access_control_is_refused_at_startup(tmp_path: Path, key: str) -> None:
    result = run(BROKER, "-c", str(configured(tmp_path, **{key: "true"})))

    assert result.returncode == 255
    assert result.stderr.startswith(f"Error: {key}=true is not supported: this broker has no access control")
    assert result.stderr.count("\n") == 1
    assert run(BROKER, "-p", "-c", str(configured(tmp_path, **{key: "false"}))).returncode == 0


def test_a_slave_without_an_id_is_refused_at_startup(tmp_path: Path) -> None:
    result = run(BROKER, "-c", str(configured(tmp_path, brokerRole="SLAVE")))

    assert result.returncode == 255
    assert result.stderr.startswith("Error: brokerRole=SLAVE needs a brokerId above 0")
    assert result.stderr.count("\n") == 1


def test_an_unknown_role_is_refused_at_startup(tmp_path: Path) -> None:
    result = run(BROKER, "-c", str(configured(tmp_path, brokerRole="MASTER")))

    assert result.returncode == 255
    assert "brokerRole" in result.stderr
    assert "SYNC_MASTER" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_a_master_gets_the_id_0(role: str) -> None:
    settings = Settings()
    settings.update({"brokerRole": role, "brokerId": "3"})

    settings.settle_identity()

    assert settings.broker.broker_id == 0


_OTHER_REPLICATION = (
    "enableDLegerCommitLog",
    "enableControllerMode",
    "enableSlaveActingMaster",
    "allAckInSyncStateSet",
    "duplicationEnable",
)


@pytest.mark.parametrize("key", _OTHER_REPLICATION)
def test_other_kinds_of_replication_are_refused_with_a_remedy(key: str) -> None:
    settings = Settings()
    settings.update({key: "true"})

    with pytest.raises(ConfigurationError, match=f"^{key}=true is not supported: .* set {key}=false, "):
        settings.refuse_unsupported()


def test_dledger_is_refused_at_startup(tmp_path: Path) -> None:
    result = run(BROKER, "-c", str(configured(tmp_path, enableDLegerCommitLog="true")))

    assert result.returncode == 255
    assert result.stderr.startswith("Error: enableDLegerCommitLog=true is not supported: roles are fixed by brokerRole")
    assert result.stderr.count("\n") == 1


def test_replication_settings_without_effect_are_accepted() -> None:
    settings = Settings()
    settings.update({"brokerRole": "ASYNC_MASTER", "brokerId": "0"})
    settings.update(dict.fromkeys(_OTHER_REPLICATION, "false"))

    settings.refuse_unsupported()


def test_mqbroker_is_a_script_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    assert project["scripts"]["mqbroker"] == "kerolox.cli.commands.broker:broker"
    assert isinstance(broker, click.Command)
