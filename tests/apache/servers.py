"""Apache's NameServer and broker as processes on loopback, small enough for two cores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.apache import SERVER_VERSIONS
from tests.apache.processes import Process, free_port, java_command, running, temporary_home

_BOOT = "boot success"


@contextlib.contextmanager
def name_server(version: str, properties: Mapping[str, str] | None = None) -> Iterator[Process]:
    """A NameServer that serves requests; for 4.9.8 that of 4.9.7 (see SERVER_VERSIONS)."""
    port = free_port()
    with temporary_home() as home:
        settings = {"listenPort": str(port), "bindAddress": "127.0.0.1", **(properties or {})}
        arguments = ("-c", str(write_properties(home / "namesrv.properties", settings)))
        main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
        command = java_command(SERVER_VERSIONS[version], home, main_class, *arguments)
        with running(command, home, f"127.0.0.1:{port}") as process:
            process.wait_for(_BOOT)
            yield process


@contextlib.contextmanager
def broker(
    version: str,
    namesrv: str,
    *,
    name: str = "broker-a",
    cluster: str = "DefaultCluster",
    port: int | None = None,
    properties: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A broker that has registered with `namesrv`; `properties` override the small defaults.

    `settings` are those of its virtual machine, `files` are laid into its directory `conf`. Who wants the ids of
    messages to lead to it again gives its port.
    """
    port = port or broker_port()
    with temporary_home() as home:
        wanted = {
            "brokerClusterName": cluster,
            "brokerName": name,
            "namesrvAddr": namesrv,
            "listenPort": str(port),
            **_small(home),
            **(properties or {}),
        }
        for file, text in (files or {}).items():
            (home / "conf" / file).write_text(text)
        arguments = ("-c", str(write_properties(home / "broker.conf", wanted)))
        main_class = "org.apache.rocketmq.broker.BrokerStartup"
        command = java_command(SERVER_VERSIONS[version], home, main_class, *arguments, settings=settings)
        with running(command, home, f"127.0.0.1:{port}") as process:
            process.wait_for(_BOOT)
            yield process


def broker_port() -> int:
    """Return a free port for a broker, which also listens on two neighbouring ports."""
    return free_port(-2, 1)


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a properties file and return its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def _small(home: Path) -> dict[str, str]:
    return {
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store" / "commitlog"),
        "mappedFileSizeCommitLog": str(16 << 20),
        "mappedFileSizeConsumeQueue": "60000",
        "maxHashSlotNum": "10000",
        "maxIndexNum": "40000",
        "diskMaxUsedSpaceRatio": "95",
        # On two busy cores a send may wait longer than the default of 200 ms, after which the broker refuses it.
        "waitTimeMillsInSendQueue": "3000",
        "enableControllerMode": "false",
    }
