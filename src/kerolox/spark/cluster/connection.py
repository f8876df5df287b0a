"""Connection options of the Spark source and sink, and the client session that a Spark process shares."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kerolox.auth.signing import Credentials
from kerolox.client.blocking.loop_thread import LoopThread
from kerolox.client.options import Options
from kerolox.client.session.session import Session
from kerolox.errors import ConfigurationError, KeroloxError
from kerolox.remoting.address import parse_addresses
from kerolox.remoting.tls import client_context
from kerolox.spark.option_parser import OptionError, OptionParser

RETRY_MILLIS: Final = 60_000


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """NameServer addresses, credentials, TLS and timeouts. Picklable, so that tasks can connect by themselves."""

    name_servers: str = ""
    # URL of an HTTP server that returns the NameServer addresses; then `name_servers` is empty.
    name_servers_url: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_trust: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    # Only producers use these two.
    unit_mode: bool = False
    vip_channel_enabled: bool = False
    connect_millis: int = 3000
    api_millis: int = 3000
    poll_name_server_millis: int = 30_000
    heartbeat_millis: int = 30_000
    # How long requests are retried while a server does not respond.
    retry_millis: int = RETRY_MILLIS

    def client_options(self) -> Options:
        """Return options for producers, consumers and admin clients; each call creates a new client id."""
        return Options(
            namesrv_addr=self.name_servers,
            namesrv_url=self.name_servers_url,
            client_ip=self.client_ip,
            # Driver and workers share these options, but each process needs its own client id.
            instance_name=None if self.instance_name is None else f"{self.instance_name}#{os.getpid()}",
            unit_name=self.unit_name,
            unit_mode=self.unit_mode,
            vip_channel_enabled=self.vip_channel_enabled,
            tls=self.tls_context() or False,
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            connect_timeout_seconds=self.connect_millis / 1000,
            mq_client_api_timeout_seconds=self.api_millis / 1000,
            poll_name_server_interval_seconds=self.poll_name_server_millis / 1000,
            heartbeat_broker_interval_seconds=self.heartbeat_millis / 1000,
        )

    def tls_context(self) -> Any:
        """Return an ssl.SSLContext, or None without TLS; OptionError if its files cannot be loaded here."""
        if not self.tls:
            return None
        paths = [None if path is None else Path(path) for path in (self.tls_trust, self.tls_certificate, self.tls_key)]
        try:
            return client_context(*paths)
        except OSError as error:  # includes ssl.SSLError
            names = "tlsTrustCertPath, tlsCertPath and tlsKeyPath"
            raise OptionError(f"options {names}: the files cannot be loaded on this machine: {error}") from error

    @property
    def credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)


def parse_connection_options(parser: OptionParser) -> ConnectionOptions:
    """Parse the options that source and sink share."""
    name_servers, url = _name_servers(parser)
    access_key = parser.text("accessKey", "rocketmq.accessKey")
    secret_key = parser.text("secretKey", "rocketmq.secretKey")
    if (access_key is None) != (secret_key is None):
        missing = "secretKey" if secret_key is None else "accessKey"
        raise OptionError(f"option {missing} is missing: accessKey and secretKey are both needed, or neither")
    token = parser.text("securityToken", "rocketmq.securityToken")
    if token is not None and access_key is None:
        raise OptionError("option securityToken needs accessKey and secretKey")
    trust = parser.text("tlsTrustCertPath", "rocketmq.tls.client.trustCertPath")
    certificate = parser.text("tlsCertPath", "rocketmq.tls.client.certPath")
    key = parser.text("tlsKeyPath", "rocketmq.tls.client.keyPath")
    tls = parser.flag("tls", "rocketmq.tls.enable", "rocketmq.useTLS", default=bool(trust or certificate))
    if (trust or certificate) and not tls:
        raise OptionError("option tls is false, and tlsTrustCertPath or tlsCertPath is given: leave out one of them")
    if (certificate is None) != (key is None):
        missing = "tlsKeyPath" if key is None else "tlsCertPath"
        raise OptionError(f"option {missing} is missing: tlsCertPath and tlsKeyPath are both needed, or neither")
    parser.refuse({"rocketmq.namespace": "is not supported: write topics and groups as NAMESPACE%name"})
    return ConnectionOptions(
        name_servers=name_servers,
        name_servers_url=url,
        access_key=access_key,
        secret_key=secret_key,
        security_token=token,
        tls=tls,
        tls_trust=trust,
        tls_certificate=certificate,
        tls_key=key,
        client_ip=parser.text("rocketmq.clientIP"),
        instance_name=parser.text("rocketmq.instanceName"),
        unit_name=parser.text("rocketmq.unitName"),
        connect_millis=parser.millis("rocketmq.connectTimeoutMillis") or 3000,
        api_millis=parser.millis("rocketmq.mqClientApiTimeout") or 3000,
        poll_name_server_millis=parser.millis("rocketmq.pollNameServerInterval") or 30_000,
        heartbeat_millis=parser.millis("rocketmq.heartbeatBrokerInterval") or 30_000,
        retry_millis=_or(parser.millis("retryTimeout", "rocketmq.retryTimeoutMillis"), RETRY_MILLIS),
    )


def _name_servers(parser: OptionParser) -> tuple[str, str | None]:
    """Return the NameServer addresses, or an empty string and the URL that returns them."""
    name_servers = parser.text("nameServer", "rocketmq.namesrv.addr", "rocketmq.namesrvAddr")
    domain, subgroup = parser.text("rocketmq.namesrv.domain"), parser.text("rocketmq.namesrv.domain.subgroup")
    if name_servers is not None and domain is not None:
        raise OptionError("options nameServer and rocketmq.namesrv.domain contradict each other: give one of them")
    if subgroup is not None and domain is None:
        raise OptionError("option rocketmq.namesrv.domain.subgroup has no meaning without rocketmq.namesrv.domain")
    try:
        if domain is not None:
            # The same URL as in Java (MixAll.getWSAddr).
            host = domain if ":" in domain else f"{domain}:8080"
            url = f"http://{host}/rocketmq/{subgroup or 'nsaddr'}"
            Options(namesrv_url=url)
            return "", url
        if name_servers is None:
            raise OptionError("option nameServer is missing: give host:port of the NameServers, separated by ';'")
        parse_addresses(name_servers)
    except ConfigurationError as error:
        raise OptionError(f"option {'nameServer' if domain is None else 'rocketmq.namesrv.domain'}: {error}") from error
    return name_servers, None


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


_sessions: dict[tuple[int, ConnectionOptions], Session] = {}


def shared_session(connection: ConnectionOptions) -> Session:
    """Return the session of this process for these options, on its LoopThread; it lives until `release_sessions`."""
    key = os.getpid(), connection
    if key not in _sessions:
        _sessions[key] = LoopThread.current().wait(Session.acquire(connection.client_options()))
    return _sessions[key]


def release_sessions() -> None:
    """Close all sessions of this process; `shared_session` then opens a new one."""
    for (process_id, _), session in list(_sessions.items()):
        if process_id == os.getpid():
            with suppress(KeroloxError, TimeoutError):
                LoopThread.current().submit(session.release()).result(2)
    _sessions.clear()
