"""The options of a dashboard."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.client.options import Options
from kerolox.dashboard.http.proxies import networks
from kerolox.errors import ConfigurationError
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.user_dir import home


@dataclass(frozen=True, kw_only=True)
class DashboardOptions:
    """`client` sets access keys and TLS for the connections to brokers; it then replaces `namesrv_addr`."""

    namesrv_addr: str = "127.0.0.1:9876"
    client: Options | None = None
    host: str = "127.0.0.1"
    # 0 picks a free port.
    port: int = 8080
    # Users and their password hashes. Without it there is no login, and only loopback hosts are allowed.
    users_file: Path | None = None
    # Refuses all changes, also of users who may otherwise make them.
    read_only: bool = False
    # Host names under which browsers may reach it, beside those of loopback; empty allows any if it listens elsewhere.
    allowed_hosts: tuple[str, ...] = ()
    # Addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    trusted_proxies: tuple[str, ...] = ()
    # Where pipelines write their progress; by default `pipelines` in the user's folder.
    pipelines_folder: Path | None = None
    # Timeout of a request to a broker or NameServer.
    timeout_seconds: float = 5.0
    # How long a page waits for all members of a group; brokers forward its requests to them.
    members_timeout_seconds: float = 5.0
    sample_seconds: float = 5.0
    connections_max: int = 256
    # A connection without a complete request is closed after this time.
    silence_seconds: float = 15.0
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def pipelines(self) -> Path:
        return self.pipelines_folder or home() / "pipelines"

    def client_options(self) -> Options:
        return self.client or Options(namesrv_addr=self.namesrv_addr)

    def check(self) -> None:
        """Raise ConfigurationError if other machines had access without a login, or if a proxy is not an address."""
        networks(self.trusted_proxies)
        if self.users_file is None and not self.is_loopback:
            raise ConfigurationError(
                f"host {self.host!r} is reachable from other machines, and there is no login: add a user with "
                "`kerolox dashboard --add-user NAME` and pass the file with --users, or listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
