"""Settings of every server, under the keys of RocketMQ (NettyServerConfig)."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Self

from kerolox.errors import ConfigurationError
from kerolox.remoting.address import AddressList
from kerolox.remoting.limits import Limits
from kerolox.remoting.server.connection_limit import ConnectionLimit
from kerolox.remoting.server.metrics_http import MetricsListener, Source
from kerolox.remoting.tls import ClientAuth, ServerTls, TlsFiles, TlsMode
from kerolox.runtime.clock import Clock
from kerolox.runtime.config import Properties, bounded, named
from kerolox.runtime.logs import LogFormat, LogLevel, LogOptions
from kerolox.wire.frames import FRAME_SIZE_MAX

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")


class MetricsExporterType(Enum):
    """Exporters of metrics; RocketMQ also has OTLP_GRPC and LOG."""

    DISABLE = "DISABLE"
    PROM = "PROM"


class MetricsLabel(str):
    """Labels as `name:value`, separated by commas; ValueError if a name is not a valid label name."""

    pairs: tuple[tuple[str, str], ...]

    def __new__(cls, text: str) -> Self:
        label = super().__new__(cls, text)
        parted = [part.partition(":") for part in text.split(",") if part.strip()]
        label.pairs = tuple((name.strip(), value.strip()) for name, _, value in parted)
        for name, _ in label.pairs:
            if not _LABEL.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid label name")
        return label


@dataclass(slots=True)
class ListenerConfig(Properties):
    """Address, limits, TLS, logs and metrics of a server."""

    # RocketMQ binds 0.0.0.0. The default here accepts only connections from this machine.
    bind_address: str = "127.0.0.1"
    listen_port: int = bounded(0, 0, 65535)
    server_socket_backlog: int = bounded(1024, 1, 65535)
    server_channel_max_idle_time_seconds: int = bounded(120, 1, 86_400)

    # Limits that RocketMQ does not have
    connection_requests_max: int = 10_000
    # Further connections are refused. 0: as many as the limit on open files leaves beside the files of the store.
    server_connections_max: int = bounded(0, 0, 1_000_000)
    # A longer header closes the connection. The properties of a message, at most 32,767 bytes, are part of the header.
    frame_header_bytes_max: int = bounded(64 * 1024, 1024, FRAME_SIZE_MAX)
    partial_frame_time_seconds: int = bounded(30, 1, 3600)
    # The limit for all connections of the process; above it, those with the largest incomplete frames are closed.
    partial_frame_bytes_max: int = 256 * 1024 * 1024
    # IP addresses and networks, such as `10.0.0.7;192.0.2.0/24`, of proxies that send PROXY protocol headers. A
    # connection from elsewhere that begins with such a header is closed; RocketMQ trusts every peer.
    proxy_protocol_trusted_addresses: AddressList = AddressList("")

    # TLS, under the names of RocketMQ's system properties
    tls_server_mode: TlsMode = named("tls.server.mode", TlsMode.PERMISSIVE)
    tls_server_cert_path: Path | None = named("tls.server.certPath", None)
    tls_server_key_path: Path | None = named("tls.server.keyPath", None)
    tls_server_key_password: str | None = named("tls.server.keyPassword", None)
    tls_server_trust_cert_path: Path | None = named("tls.server.trustCertPath", None)
    tls_server_need_client_auth: ClientAuth = named("tls.server.need.client.auth", ClientAuth.NONE)

    # The directory of log files; without it, logs go to standard error. RocketMQ keeps ten files of 128 MB as well.
    log_dir: Path | None = None
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.INFO
    log_file_size_max: int = bounded(128 * 1024 * 1024, 4096, 2**40)
    log_files_max: int = bounded(10, 1, 1000)

    # Prometheus, under the keys of RocketMQ's BrokerConfig. RocketMQ's NameServer has no metrics.
    metrics_exporter_type: MetricsExporterType = MetricsExporterType.DISABLE
    metrics_prom_exporter_port: int = bounded(5557, 0, 65535)
    # Defaults to `bindAddress`.
    metrics_prom_exporter_host: str | None = None
    # Labels added to each metric, such as `zone:north,rack:7`.
    metrics_label: MetricsLabel = MetricsLabel("")
    # At most this many topics, and pairs of topic and group, have their own series; RocketMQ has no such limit.
    metrics_series_max: int = bounded(1000, 1, 100_000)

    def metrics_listener(self, *sources: Source) -> MetricsListener | None:
        """Return the listener for Prometheus; None if metrics are disabled."""
        if self.metrics_exporter_type is MetricsExporterType.DISABLE:
            return None
        host = self.metrics_prom_exporter_host or self.bind_address
        return MetricsListener(sources, host=host, port=self.metrics_prom_exporter_port)

    def extra_labels(self) -> dict[str, str]:
        return dict(self.metrics_label.pairs)

    def log_options(self, name: str) -> LogOptions:
        return LogOptions(
            name=name,
            directory=self.log_dir,
            format=self.log_format,
            level=self.log_level,
            file_size_max=self.log_file_size_max,
            files_max=self.log_files_max,
        )

    def connection_limit(self, clock: Clock, *, files_max: int = 0) -> ConnectionLimit:
        return ConnectionLimit(
            clock,
            connections_max=self.server_connections_max,
            files_max=files_max,
            partial_bytes_max=self.partial_frame_bytes_max,
        )

    def limits(self) -> Limits:
        return Limits(
            idle_seconds=self.server_channel_max_idle_time_seconds,
            header_size_max=self.frame_header_bytes_max,
            requests_in_flight_max=self.connection_requests_max,
            partial_frame_seconds=self.partial_frame_time_seconds,
        )

    def server_tls(self) -> ServerTls | None:
        if self.tls_server_cert_path is None or self.tls_server_key_path is None:
            if self.tls_server_cert_path is not self.tls_server_key_path:
                raise ConfigurationError("tls.server.certPath and tls.server.keyPath are both needed, or neither")
            return None
        return ServerTls(
            TlsFiles(
                certificate=self.tls_server_cert_path,
                key=self.tls_server_key_path,
                key_password=self.tls_server_key_password,
                trust=self.tls_server_trust_cert_path,
                client_auth=self.tls_server_need_client_auth,
            )
        )
