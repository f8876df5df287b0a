"""A NameServer and brokers in this process."""

from collections.abc import Sequence
from functools import partial

from kerolox.broker import Broker, Settings
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.remoting.address import format_address, parse_address
from kerolox.runtime.service import LazyService, Supervisor

# A server that listens on all interfaces is reached by loopback from the same machine.
_LOOPBACKS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class Cluster(Supervisor):
    """`async with Cluster(config, settings) as cluster: ... cluster.namesrv_addr`, all on one event loop.

    When a service of one of the servers fails, all servers close, and `async with` raises ServiceFailed.
    """

    def __init__(self, name_server: NamesrvConfig, brokers: Sequence[Settings]) -> None:
        self.name_server = NameServer(name_server)
        self.brokers: list[Broker] = []
        # Brokers are created late: the port of the NameServer is known only after it has been opened.
        super().__init__(self.name_server, *(LazyService(partial(self._broker, settings)) for settings in brokers))

    @property
    def namesrv_addr(self) -> str:
        """The NameServer address for clients on this machine."""
        host, port = parse_address(self.name_server.address)
        return format_address((_LOOPBACKS.get(host, host), port))

    def _broker(self, settings: Settings) -> Broker:
        settings.update({"namesrvAddr": self.namesrv_addr})
        broker = Broker(settings)
        self.brokers.append(broker)
        return broker


def broker_name(number: int) -> str:
    """Return the default name of a broker by its number, from 0."""
    return f"broker-{chr(ord('a') + number)}" if number < 26 else f"broker-{number}"
