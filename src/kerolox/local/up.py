"""`kerolox up`: NameServer, brokers and dashboard put together, with their data in one folder."""

import importlib
import importlib.util
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kerolox
from kerolox.broker import Settings
from kerolox.broker.advertised import check_advertised
from kerolox.errors import ConfigurationError
from kerolox.local.children import BrokerProcess, BrokerProcesses, our_command
from kerolox.local.cluster import Cluster, broker_name
from kerolox.local.folder import BrokerState, Folder, UpState
from kerolox.namesrv import NamesrvConfig
from kerolox.remoting.configuration import ListenerConfig
from kerolox.remoting.http import MetricsListener
from kerolox.runtime import properties
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.logs import LogFormat, LogOptions
from kerolox.runtime.service import Late, Service, Supervisor

log = logging.getLogger(__name__)

_DASHBOARD = "kerolox.dashboard.server"
_DASHBOARD_NEEDS = (_DASHBOARD, "jinja2", "starlette", "uvicorn")
# A broker takes the port two below its own and the one above; brokers are this far from each other.
_PORTS_APART = 10
BROKERS_MAX = 64
# What a broker's file says when it is made. The original reserves 1 GiB at a time for the log and 400 MB for keys,
# which is much for a machine on which somebody tries something out.
_BROKER_FILE = """\
# Settings of {name}, under RocketMQ's keys; they hold from the next start on. Ports and paths are set by `kerolox up`.
brokerName={name}
mappedFileSizeCommitLog=134217728
maxHashSlotNum=500000
maxIndexNum=2000000
"""
_NAMESRV_FILE = "# Settings of the NameServer, under RocketMQ's keys; they hold from the next start on.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """`brokers` is None for one in this process, else how many have one of their own; port 0 is any that is free."""

    data: Path
    host: str = "127.0.0.1"
    advertised: str = "127.0.0.1"
    namesrv_port: int = 9876
    broker_port: int = 10911
    dashboard_port: int | None = 8080
    users_file: Path | None = None
    brokers: int | None = None
    metrics_port: int | None = None
    # What the files of settings say, if nothing.
    log_format: LogFormat | None = None


class Up:
    """`async with Up(options) as up: ... up.state`. Whoever does has taken the folder (`Folder.taken`)."""

    def __init__(self, options: UpOptions, *, ready_seconds: Callable[[], float], clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._ready_seconds = ready_seconds
        self._is_ready = False
        self.folder = Folder(options.data)
        self.state = UpState(
            pid=os.getpid(),
            version=kerolox.__version__,
            data=str(self.folder.path),
            started=self._clock.millis(),
            ready_seconds=0.0,
            namesrv="",
        )

    async def __aenter__(self) -> "Up":
        self._supervisor = Supervisor(*self._services())
        await self._supervisor.__aenter__()
        self._is_ready = True
        self.state.ready_seconds = self._ready_seconds()
        self._tell()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._supervisor.__aexit__(None, None, None)
        self.folder.forget()

    async def wait(self) -> None:
        """Waits for ever, or until a part of it fails that the others cannot do without."""
        await self._supervisor.wait()

    def _services(self) -> list[Service]:
        options = self._options
        is_embedded = options.brokers is None
        names = [broker_name(number) for number in range(options.brokers or 1)]
        self._warn_of_others(len(names))
        embedded = [self._settings(names[0])] if is_embedded else []
        self._cluster = Cluster(self._name_server(), embedded)
        services: list[Service] = [Late(lambda: _ClusterService(self._cluster), then=lambda _: self._started())]
        if not is_embedded:
            services.append(Late(lambda: BrokerProcesses([self._child(*each) for each in enumerate(names)])))
        if options.metrics_port is not None:
            services.append(Late(self._metrics, then=self._has_metrics, is_needed=False))
        if options.dashboard_port is not None and has_dashboard():
            services.append(Late(self._dashboard, then=self._has_dashboard, is_needed=False))
        return services

    def _warn_of_others(self, count: int) -> None:
        """Says so where messages are kept of brokers that were here before, and are not to run this time."""
        numbers = range(count, BROKERS_MAX)
        others = [number for number in numbers if _has_messages(self.folder.path / broker_name(number))]
        if others:
            names = ", ".join(map(broker_name, others))
            log.warning("messages of %s are not served: `kerolox up --brokers %d` does", names, others[-1] + 1)

    def _started(self) -> None:
        self.state.namesrv = self._reached(self._cluster.name_server.address)
        for broker in self._cluster.brokers:
            name = broker.settings.broker.broker_name
            self.state.brokers.append(BrokerState(name=name, address=broker.address, pid=os.getpid()))

    def _name_server(self) -> NamesrvConfig:
        file = self._file("namesrv", _NAMESRV_FILE)
        config = NamesrvConfig()
        config.update(_read(file))
        config.config_store_path = file
        config.kv_config_path = self.folder.path / "namesrv" / "kvConfig.json"
        config.bind_address, config.listen_port = self._options.host, self._options.namesrv_port
        return config

    def _settings(self, name: str) -> Settings:
        file = self._file(name, _BROKER_FILE.format(name=name))
        settings = Settings()
        settings.update(_read(file))
        settings.update(
            {
                "brokerName": name,
                "brokerIP1": self._options.advertised,
                "bindAddress": self._options.host,
                "listenPort": str(self._options.broker_port),
                "storePathRootDir": str(self.folder.path / name),
            }
        )
        settings.broker.config_store_path = file
        check_advertised(settings)
        return settings

    def _child(self, number: int, name: str) -> BrokerProcess:
        options = self._options
        port = options.broker_port + number * _PORTS_APART if options.broker_port else 0
        arguments = {
            "-c": self._file(name, _BROKER_FILE.format(name=name)),
            "-n": self._cluster.namesrv_addr,
            "--bind": options.host,
            "--advertise": options.advertised,
            "--port": port,
            "--store": self.folder.path / name,
            "--log-dir": self.folder.logs / name,
        }
        if options.log_format is not None:
            arguments["--log-format"] = options.log_format.value
        if options.metrics_port is not None:
            arguments["--metrics-port"] = options.metrics_port + 1 + number if options.metrics_port else 0
        given = [str(part) for pair in arguments.items() for part in pair]
        command = our_command("broker", "--with-parent", *given)
        child = BrokerProcess(name, command, clock=self._clock, on_change=self._tell)
        self.state.brokers.append(child.state)
        return child

    def _metrics(self) -> Service:
        """One listener tells of all that is in this process; brokers with one of their own have the ports above."""
        assert self._options.metrics_port is not None
        sources = [self._cluster.name_server.metrics.gather, *(it.metrics.gather for it in self._cluster.brokers)]
        return MetricsListener(sources, host=self._options.host, port=self._options.metrics_port)

    def _has_metrics(self, listener: Service) -> None:
        assert isinstance(listener, MetricsListener)
        self.state.metrics = self._reached(listener.url)

    def _dashboard(self) -> Service:
        module = importlib.import_module(_DASHBOARD)
        options = self._options
        # Others may come in only where they have to say who they are.
        host = options.host if options.users_file is not None else "127.0.0.1"
        dashboard = module.Dashboard(
            module.DashboardOptions(
                namesrv_addr=self._cluster.namesrv_addr,
                host=host,
                port=options.dashboard_port,
                users_file=options.users_file,
            )
        )
        assert isinstance(dashboard, Service)
        return dashboard

    def _has_dashboard(self, dashboard: Any) -> None:
        self.state.dashboard = self._reached(dashboard.url)

    def _reached(self, address: str) -> str:
        """Returns an address as others know it: who listens everywhere is reached where it says to be."""
        advertised = f"[{self._options.advertised}]" if ":" in self._options.advertised else self._options.advertised
        for everywhere in ("0.0.0.0", "[::]"):  # noqa: S104
            address = address.replace(everywhere, advertised)
        return address

    def _file(self, name: str, content: str) -> Path:
        """Returns the file with the settings of a server, which is made once and from then on the user's."""
        file = self.folder.path / "conf" / f"{name}.conf"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        return file

    def _tell(self) -> None:
        if self._is_ready:
            self.folder.tell(self.state)


def log_options(options: UpOptions) -> LogOptions:
    """Returns where log lines of this process go; `conf` has how many there are, and how long they are kept.

    It is the broker's file that says so where the broker is in this process, else the NameServer's.
    """
    folder = Folder(options.data)
    file = folder.path / "conf" / f"{broker_name(0) if options.brokers is None else 'namesrv'}.conf"
    config = ListenerConfig()
    if file.exists():
        config.update(_read(file))
    found = replace(config.log_options("up"), directory=folder.logs)
    return found if options.log_format is None else replace(found, format=options.log_format)


def has_dashboard() -> bool:
    """Whether the extra `dashboard` is installed."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _DASHBOARD_NEEDS)
    except ModuleNotFoundError:
        return False


class _ClusterService(Service):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def open(self) -> None:
        await self._cluster.__aenter__()

    async def run(self) -> None:
        await self._cluster.wait()

    async def close(self) -> None:
        await self._cluster.__aexit__()


def _has_messages(store: Path) -> bool:
    # The log has a file before the first message comes, queues have none.
    queues = store / "consumequeue"
    return queues.is_dir() and any(queues.iterdir())


def _read(file: Path) -> dict[str, str]:
    try:
        return properties.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"configuration file {file} cannot be read: {why}") from error
