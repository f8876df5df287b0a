"""The brokers under comparison, each with its own Kerolox NameServer, which uses almost no CPU."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.connections import connect
from bench.report import KEROLOX
from bench.servers import JAVA_HEAP, JAVA_OPENED, ServerSpec, name_servers
from tests.apache import SERVER_VERSIONS, VERSIONS
from tests.apache.maven import classpath
from tests.apache.processes import Process, free_port, running, temporary_home
from tests.apache.servers import write_properties

# A broker listens on two more ports: the fast listener and HA.
NEIGHBOURS = (-2, 1)
NEWEST_4 = f"Apache {SERVER_VERSIONS['4.9.8']}"
_READY_SECONDS_MAX = 30.0


def brokers(
    flush: str, stack: contextlib.ExitStack, trees: Sequence[Path] = ()
) -> tuple[list[ServerSpec], dict[str, str]]:
    """Return the broker of Kerolox and Java's of each version, and by name the NameServers they register with.

    Each of `trees`, other working trees of Kerolox, adds a broker.
    """
    versions = [SERVER_VERSIONS[version] for version in VERSIONS]
    by_name = {f"{KEROLOX} of {tree.resolve().name}": tree.resolve() for tree in trees}
    names = [KEROLOX, *by_name, *(f"Apache {version}" for version in versions)]
    namesrvs = {name: name_server(stack) for name in names}
    specs = [ours(namesrvs[KEROLOX], flush)]
    specs += [ours(namesrvs[name], flush, tree=tree, title=name) for name, tree in by_name.items()]
    for version in versions:
        name = f"Apache {version}"
        specs.append(_java(name, version, namesrvs[name], flush))
    return specs, namesrvs


def our_broker(flush: str, stack: contextlib.ExitStack) -> tuple[ServerSpec, str]:
    """Return the broker of Kerolox, and the address of the NameServer it registers with."""
    namesrv = name_server(stack)
    return ours(namesrv, flush), namesrv


def java_cluster(stack: contextlib.ExitStack) -> tuple[list[Process], int]:
    """Start Java's newest NameServer of 4.9 and, once it listens, a broker; return both and the NameServer's port.

    A broker that is started earlier would not find the NameServer, and retry only after ten seconds. The caller must
    wait for the broker.
    """
    version = SERVER_VERSIONS["4.9.8"]
    port, broker_port = free_port(), free_port(*NEIGHBOURS)
    namesrv = next(each for each in name_servers() if each.name == NEWEST_4)
    broker = _java(NEWEST_4, version, f"127.0.0.1:{port}", "ASYNC_FLUSH")
    processes = []
    for spec, at in ((namesrv, port), (broker, broker_port)):
        home = stack.enter_context(temporary_home())
        processes.append(stack.enter_context(running(spec.command(home, at), home, f"127.0.0.1:{at}")))
        _wait_for_listener(port)
    return processes, port


def name_server(stack: contextlib.ExitStack) -> str:
    port = free_port()
    home = stack.enter_context(temporary_home())
    settings = {
        "listenPort": str(port),
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(home / "namesrv.properties"),
    }
    command = [*_python("namesrv"), str(write_properties(home / "bench.properties", settings))]
    stack.enter_context(running(command, home, f"127.0.0.1:{port}"))
    _wait_for_listener(port)
    return f"127.0.0.1:{port}"


def _wait_for_listener(port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while True:
        try:
            connect(port).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _settings(name: str, namesrv: str, home: Path, port: int, flush: str) -> dict[str, str]:
    """Return the settings of all brokers; all others have their defaults."""
    return {
        "brokerClusterName": "BenchCluster",
        "brokerName": name.partition(" ")[0].lower(),
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "namesrvAddr": namesrv,
        "listenPort": str(port),
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store" / "commitlog"),
        "flushDiskType": flush,
        # On two busy cores a send may wait longer than the default of 200 ms, after which Java's broker refuses it.
        "waitTimeMillsInSendQueue": "3000",
    }


def ours(
    namesrv: str, flush: str, name: str = KEROLOX, *, tree: Path | None = None, title: str = KEROLOX
) -> ServerSpec:
    """Return the broker of this or another working tree; it registers under `name`."""

    def command(home: Path, port: int) -> list[str]:
        settings = _settings(name, namesrv, home, port, flush)
        return [*_python("broker", tree), str(write_properties(home / "broker.conf", settings))]

    return ServerSpec(title, command, NEIGHBOURS)


def _java(name: str, version: str, namesrv: str, flush: str) -> ServerSpec:
    def command(home: Path, port: int) -> list[str]:
        settings = {**_settings(name, namesrv, home, port, flush), "brokerIP2": "127.0.0.1"}
        return [
            "java",
            *JAVA_HEAP,
            *(f"--add-opens={package}=ALL-UNNAMED" for package in JAVA_OPENED),
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            *("-cp", f"{home / 'conf'}:{classpath(version)}", "org.apache.rocketmq.broker.BrokerStartup"),
            *("-c", str(write_properties(home / "broker.conf", settings))),
        ]

    return ServerSpec(name, command, NEIGHBOURS)


def _python(command: str, tree: Path | None = None) -> list[str]:
    """Return the start of a command line that runs one of our commands with this Python, installed or not.

    Bytecode files are allowed: Java's classes are compiled in advance, and so are installed Python packages.
    """
    return [
        "env",
        "-u",
        "PYTHONDONTWRITEBYTECODE",
        *([f"PYTHONPATH={tree / 'src'}"] if tree else []),
        sys.executable,
        "-c",
        "from kerolox.cli.app import main; main()",
        command,
        "-c",
    ]
