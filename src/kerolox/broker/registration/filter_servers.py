"""Registered FilterServers of RocketMQ 4.x, which consumers find through NameServers (FilterServerManager)."""

import logging
from dataclasses import dataclass

from kerolox.broker.errors import InvalidParameter
from kerolox.errors import SystemBusy
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

_IDLE_SECONDS = 30.0
# A limit that RocketMQ does not have; a broker usually has one or two.
_SERVERS_MAX = 100


@dataclass(slots=True)
class _Registered:
    address: str
    seen_at: float


class FilterServers:
    """One FilterServer per connection; it expires if it does not register again within half a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._servers: dict[Connection, _Registered] = {}

    def register(self, connection: Connection, address: str) -> None:
        known = self._servers.get(connection)
        if known is not None:
            known.seen_at = self._clock.monotonic()
            return
        try:
            parse_address(address)
        except Exception as error:
            raise InvalidParameter(f"{address[:100]!r} is not a valid filter server address") from error
        if len(self._servers) >= _SERVERS_MAX:
            raise SystemBusy(f"{len(self._servers)} filter servers, at most {_SERVERS_MAX} allowed")
        log.info("registered filter server %s", address)
        self._servers[connection] = _Registered(address, self._clock.monotonic())

    def expire(self) -> None:
        """Remove closed and expired filter servers."""
        oldest = self._clock.monotonic() - _IDLE_SECONDS
        for connection, server in list(self._servers.items()):
            if server.seen_at < oldest or connection.is_closed:
                log.info("removed filter server %s", server.address)
                del self._servers[connection]
                connection.abort()

    def addresses(self) -> list[str]:
        return sorted({server.address for connection, server in self._servers.items() if not connection.is_closed})
