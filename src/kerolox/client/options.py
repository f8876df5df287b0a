"""What all clients share: where the NameServers are, who the client is, and how it proves that."""

import itertools
import os
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict, Unpack

from kerolox.client.name_server_list import check_url
from kerolox.client.names import unwrap, wrap
from kerolox.errors import ConfigurationError
from kerolox.remoting.address import parse_address, parse_addresses
from kerolox.remoting.tls import client_context
from kerolox.runtime.clock import Clock, SystemClock

_count = itertools.count()


def _token() -> str:
    return str(time.time_ns() + next(_count))


class Shared(TypedDict, total=False):
    """The keywords that every client takes; Options says what they mean."""

    namesrv_addr: str | Sequence[str]
    namesrv_url: str | None
    client_ip: str | None
    instance_name: str | None
    unit_name: str | None
    unit_mode: bool
    namespace: str | None
    vip_channel_enabled: bool
    tls: bool | ssl.SSLContext
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    connect_timeout_seconds: float
    mq_client_api_timeout_seconds: float
    poll_name_server_interval_seconds: float
    heartbeat_broker_interval_seconds: float
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class Options:
    """One object may serve several clients, which then share a client id and its connections.

    Two clients that were configured apart never have the same id, unless `instance_name` says so.
    """

    # `host:port`, several parted by `;` or as a list; from the environment's NAMESRV_ADDR if not given.
    namesrv_addr: str | Sequence[str] = ""
    # Instead of it: where an HTTP server has that text, which is asked for at the start and then every two minutes.
    namesrv_url: str | None = None
    # By which address others know this machine; found out if not given.
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    unit_mode: bool = False
    namespace: str | None = None
    # Sends go to the broker's second port, two below the first.
    vip_channel_enabled: bool = False
    # True encrypts and verifies nothing; a context does what it says.
    tls: bool | ssl.SSLContext = False
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    connect_timeout_seconds: float = 3.0
    # For what clients ask beside sending and pulling.
    mq_client_api_timeout_seconds: float = 3.0
    poll_name_server_interval_seconds: float = 30.0
    heartbeat_broker_interval_seconds: float = 30.0
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)
    _token: str = field(default_factory=_token, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigurationError("access_key and secret_key are both needed, or neither")
        if self.instance_name is not None and (not self.instance_name or "@" in self.instance_name):
            raise ConfigurationError(f"instance_name {self.instance_name!r} is no name")
        if self.namesrv_url is not None:
            check_url(self.namesrv_url)
            if self.namesrv_addr:
                raise ConfigurationError("give namesrv_addr or namesrv_url, not both")
        elif not self.name_servers:
            raise ConfigurationError(
                "no NameServer address given: set namesrv_addr, or NAMESRV_ADDR, to host:port, several parted by ';'"
            )

    @cached_property
    def name_servers(self) -> list[str]:
        """Those that were given; none if they are asked for."""
        if self.namesrv_url is not None:
            return []
        given = self.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
        return parse_addresses(given if isinstance(given, str) else ";".join(given))

    @cached_property
    def ip(self) -> str:
        return self.client_ip or local_ip()

    @property
    def client_id(self) -> str:
        """In Java's form: `ip@pid#time`, or `ip@name` if there is one; then the unit. A fork has one of its own."""
        instance = self.instance_name or f"{os.getpid()}#{self._token}"
        unit = f"@{self.unit_name}" if self.unit_name else ""
        return f"{self.ip}@{instance}{unit}"

    @cached_property
    def tls_context(self) -> ssl.SSLContext | None:
        return client_context() if self.tls is True else self.tls or None

    def wrap(self, name: str) -> str:
        """Returns a topic or group as brokers know it."""
        return wrap(self.namespace, name)

    def unwrap(self, name: str) -> str:
        return unwrap(self.namespace, name)

    def vip(self, address: str) -> str:
        """Returns where to send to: the broker's address, or its second port if that is wanted."""
        if not self.vip_channel_enabled:
            return address
        host, _, _ = address.rpartition(":")
        return f"{host}:{parse_address(address)[1] - 2}"


def options_of(options: Options | None, **keywords: Unpack[Shared]) -> Options:
    """Returns the options that a client was given: as an object, or one by one."""
    if options is None:
        return Options(**keywords)
    if keywords:
        raise ConfigurationError(f"give options or {', '.join(keywords)}, not both")
    return options


def local_ip() -> str:
    """Returns the address by which others reach this machine, as far as its routes tell; loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: only the route is looked up.
            probe.connect(("192.0.2.1", 9))
            ip: str = probe.getsockname()[0]
        except OSError:
            ip = "127.0.0.1"
    return ip
