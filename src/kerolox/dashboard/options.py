"""How a dashboard is set up, and what it refuses to be."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from kerolox.client.options import Options
from kerolox.errors import ConfigurationError
from kerolox.runtime.clock import Clock, SystemClock
from kerolox.runtime.home import home


@dataclass(frozen=True, kw_only=True)
class DashboardOptions:
    """`client` has keys and TLS where brokers want them, and then says where NameServers are, too."""

    namesrv_addr: str = "127.0.0.1:9876"
    client: Options | None = None
    host: str = "127.0.0.1"
    # 0 takes a free one.
    port: int = 8080
    # Who may come in; without it everybody who reaches the port may, which is why it is loopback then.
    users_file: Path | None = None
    # Nobody changes anything, whoever it is.
    read_only: bool = False
    # By which names browsers reach it, if it does not listen on loopback; empty is any.
    allowed_hosts: tuple[str, ...] = ()
    # Where pipelines say how far they are; `pipelines` in the user's folder if not given.
    pipelines_folder: Path | None = None
    # What brokers are given to answer in.
    timeout_seconds: float = 5.0
    sample_seconds: float = 5.0
    connections_max: int = 256
    # Who does not say in this time what it wants is hung up on.
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
        """ConfigurationError if others could come in without saying who they are."""
        if self.users_file is None and not self.is_loopback:
            raise ConfigurationError(
                f"host {self.host!r} lets other machines in, and there is no login: add a user with "
                "`kerolox dashboard --add-user NAME` and give the file with --users, or listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
