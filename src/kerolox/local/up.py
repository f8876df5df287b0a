"""`kerolox up`: runs a NameServer, brokers and the dashboard with their data in one folder."""

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
from kerolox.broker.registration.advertised_address import check_advertised
from kerolox.errors import ConfigurationError
from kerolox.local.cluster import Cluster, broker_name
from kerolox.local.folder import BrokerState, Folder, UpState
from kerolox.local.processes import BrokerProcess, BrokerProcesses, our_command
from kerolox.namesrv import NamesrvConfig
from kerolox.remoting.config import ListenerConfig
from kerolox.remoting.server.metrics_http import MetricsListener
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.config import warn_of_unknown
from kerolox.runtime.logs import LogFormat, LogOptions
from kerolox.runtime.service import LazyService, Service, Step, Supervisor
from kerolox.runtime.text import properties

log = logging.getLogger(__name__)

_DASHBOARD = "kerolox.dashboard.server"
_DASHBOARD_NEEDS = (_DASHBOARD, "jinja2", "starlette", "uvicorn")
# A broker also uses the port two below its own (VIP) and the one above (HA), so brokers are this far apart.
_PORTS_APART = 10
BROKERS_MAX = 64
# The configuration file of a new broker. RocketMQ reserves 1 GiB at a time for the log and 400 MB for keys, which is
# too much on a laptop.
_BROKER_FILE = """\
# Settings of {name}, under RocketMQ's keys; they hold from the next start on. Ports and paths are set by `kerolox up`.
brokerName={name}
mappedFileSizeCommitLog={log_file_size}
maxHashSlotNum=500000
maxIndexNum=2000000
"""
# Room for the largest message with its properties, more than once.
_LOG_FILE_SIZE = 16 * 1024 * 1024
_NAMESRV_FILE = "# Settings of the NameServer, under RocketMQ's keys; they hold from the next start on.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """`brokers` is None for one broker in this process, else the number of broker processes. Port 0 is any free one."""

    data: Path
    host: str = "127.0.0.1"
    advertised: str = "127.0.0.1"
    namesrv_port: int = 9876
    broker_port: int = 10911
    dashboard_port: int | None = 8080
    users_file: Path | None = None
    brokers: int | None = None
    metrics_port: int | None = None
    # By default as configured in the settings files.
    log_format: LogFormat | None = None


class Up(Supervisor):
    """`async with Up(options) as up: ... up.state`; the caller must have locked the folder (`Folder.taken`).

    When a required service fails, all services close, and `async with` raises ServiceFailed.
    """

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
        super().__init__(Step(closing=self.folder.delete_state), *self._services(), Step(opening=self._ready))

    def _ready(self) -> None:
        self._is_ready = True
        self.state.ready_seconds = self._ready_seconds()
        self._save_state()

    def _services(self) -> list[Service]:
        options = self._options
        is_embedded = options.brokers is None
        names = [broker_name(number) for number in range(options.brokers or 1)]
        self._warn_of_unserved_brokers(len(names))
        embedded = [self._settings(names[0])] if is_embedded else []
        self._cluster = Cluster(self._name_server(), embedded)
        services: list[Service] = [LazyService(lambda: self._cluster, then=lambda _: self._started())]
        if not is_embedded:
            services.append(LazyService(lambda: BrokerProcesses([self._child(*each) for each in enumerate(names)])))
        if options.metrics_port is not None:
            services.append(LazyService(self._metrics, then=self._metrics_started, is_needed=False))
        if options.dashboard_port is not None and has_dashboard():
            services.append(LazyService(self._dashboard, then=self._dashboard_started, is_needed=False))
        return services

    def _warn_of_unserved_brokers(self, count: int) -> None:
        """Log a warning if the folder has messages of brokers that do not run this time."""
        numbers = range(count, BROKERS_MAX)
        others = [number for number in numbers if _has_messages(self.folder.path / broker_name(number))]
        if others:
            names = ", ".join(map(broker_name, others))
            log.warning("messages of %s are not served: use `kerolox up --brokers %d`", names, others[-1] + 1)

    def _started(self) -> None:
        self.state.namesrv = self._advertised_address(self._cluster.name_server.address)
        for broker in self._cluster.brokers:
            name = broker.settings.broker.broker_name
            self.state.brokers.append(BrokerState(name=name, address=broker.address, pid=os.getpid()))

    def _name_server(self) -> NamesrvConfig:
        file = self._file("namesrv", _NAMESRV_FILE)
        config = NamesrvConfig()
        config.update(_read(file))
        warn_of_unknown(file, config.extra)
        config.config_store_path = file
        config.kv_config_path = self.folder.path / "namesrv" / "kvConfig.json"
        config.bind_address, config.listen_port = self._options.host, self._options.namesrv_port
        return config

    def _settings(self, name: str) -> Settings:
        file = self._broker_file(name)
        settings = Settings()
        settings.update(_read(file))
        warn_of_unknown(file, settings.unknown)
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
            "-c": self._broker_file(name),
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
        options_and_values = [str(part) for pair in arguments.items() for part in pair]
        command = our_command("broker", "--with-parent", *options_and_values)
        child = BrokerProcess(name, command, clock=self._clock, on_change=self._save_state)
        self.state.brokers.append(child.state)
        return child

    def _metrics(self) -> Service:
        """Return a listener for the metrics of all servers in this process; broker processes use the ports above."""
        assert self._options.metrics_port is not None
        sources = [self._cluster.name_server.metrics.gather, *(it.metrics.gather for it in self._cluster.brokers)]
        return MetricsListener(sources, host=self._options.host, port=self._options.metrics_port)

    def _metrics_started(self, listener: Service) -> None:
        assert isinstance(listener, MetricsListener)
        self.state.metrics = self._advertised_address(listener.url)

    def _dashboard(self) -> Service:
        module = importlib.import_module(_DASHBOARD)
        options = self._options
        # Without users there is no login, so the dashboard must not be reachable from other machines.
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

    def _dashboard_started(self, dashboard: Any) -> None:
        self.state.dashboard = self._advertised_address(dashboard.url)

    def _advertised_address(self, address: str) -> str:
        """Replace a wildcard listen address by the advertised one."""
        advertised = f"[{self._options.advertised}]" if ":" in self._options.advertised else self._options.advertised
        for everywhere in ("0.0.0.0", "[::]"):  # noqa: S104
            address = address.replace(everywhere, advertised)
        return address

    def _broker_file(self, name: str) -> Path:
        size = _log_file_size(self.folder.path / name) or _LOG_FILE_SIZE
        return self._file(name, _BROKER_FILE.format(name=name, log_file_size=size))

    def _file(self, name: str, content: str) -> Path:
        """Return the settings file of a server; it is created once, and then belongs to the user."""
        file = self.folder.path / "conf" / f"{name}.conf"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        return file

    def _save_state(self) -> None:
        if self._is_ready:
            self.folder.save_state(self.state)


def log_options(options: UpOptions) -> LogOptions:
    """Return the log options of this process, from the settings file of the broker in it, or of the NameServer."""
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


def _log_file_size(store: Path) -> int:
    """Return the size of the existing commit log files of a store, which cannot be changed; 0 if there are none."""
    sizes = [file.stat().st_size for file in sorted((store / "commitlog").glob("[0-9]*"))]
    return sizes[0] if sizes else 0


def _has_messages(store: Path) -> bool:
    # The commit log has a file before the first message, but consume queues have none.
    queues = store / "consumequeue"
    return queues.is_dir() and any(queues.iterdir())


def _read(file: Path) -> dict[str, str]:
    try:
        return properties.parse(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"configuration file {file} cannot be read: {why}") from error
