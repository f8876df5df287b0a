"""FilterServers of the 4.x line, as they register: reported to NameServers, and so to consumers."""

import logging
from dataclasses import dataclass

from kerolox.broker.errors import InvalidParameter
from kerolox.errors import SystemBusy
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import Connection
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

_IDLE_MILLIS = 30_000
# A bound the original does not have; it starts one or two of them.
_SERVERS_MAX = 100


@dataclass(slots=True)
class _Registered:
    address: str
    seen_millis: int


class FilterServers:
    """One for each connection, as long as it says every so often that it is there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._servers: dict[Connection, _Registered] = {}

    def register(self, connection: Connection, address: str) -> None:
        known = self._servers.get(connection)
        if known is not None:
            known.seen_millis = self._clock.millis()
            return
        try:
            parse_address(address)
        except Exception as error:
            raise InvalidParameter(f"{address[:100]!r} is no address of a filter server") from error
        if len(self._servers) >= _SERVERS_MAX:
            raise SystemBusy(f"{len(self._servers)} filter servers, at most {_SERVERS_MAX} allowed")
        log.info("filter server %s", address)
        self._servers[connection] = _Registered(address, self._clock.millis())

    def expire(self) -> None:
        """Forgets those that have left, or have not been heard of for half a minute."""
        oldest = self._clock.millis() - _IDLE_MILLIS
        for connection, server in list(self._servers.items()):
            if server.seen_millis < oldest or connection.is_closed:
                log.info("filter server %s has left", server.address)
                del self._servers[connection]
                connection.abort()

    def addresses(self) -> list[str]:
        return sorted({server.address for connection, server in self._servers.items() if not connection.is_closed})
