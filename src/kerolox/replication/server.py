"""The master's end of replication: listens for slaves and sends them the log (HAService)."""

import asyncio
import logging

from kerolox.errors import ConfigurationError, reason
from kerolox.remoting.address import format_address
from kerolox.remoting.server.connection_limit import LogLimit
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.replication.replica_connection import ReplicaConnection, SlaveStatus
from kerolox.replication.slave_connection import SlaveConnection
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.store.store import Store

log = logging.getLogger(__name__)

_CONNECTIONS_MAX = 64
_TICK_SECONDS = 1.0


class ReplicationServer(Service):
    """Serves slaves of RocketMQ's and of our own. What they report goes to `store.copies`, if sends wait for copies."""

    def __init__(self, store: Store, config: ReplicationConfig, clock: Clock, *, host: str, port: int) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._connections: set[ReplicaConnection] = set()
        # Anybody may connect.
        self._log_limit = LogLimit(clock, "connections of slaves")

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._accept, self._host, self._port)
        except (OSError, OverflowError) as error:
            where = format_address((self._host, self._port))
            raise ConfigurationError(f"cannot listen for slaves on {where} (haListenPort): {reason(error)}") from error

    @property
    def address(self) -> str:
        """The address on which it listens, as host:port."""
        assert self._server is not None
        return format_address(self._server.sockets[0].getsockname())

    async def run(self) -> None:
        tick_seconds = min(_TICK_SECONDS, self._config.ha_send_heartbeat_interval / 4000)
        while True:
            await self._clock.sleep(tick_seconds)
            self._tick()

    def _tick(self) -> None:
        for connection in list(self._connections):
            connection.tick()
        self._log_limit.report()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connections of all slaves; they connect again if they want to."""
        for connection in list(self._connections):
            connection.close()
            self._changed(connection)

    def status(self) -> list[SlaveStatus]:
        """Return the state of each connected slave; only the furthest connection of a slave with several."""
        furthest: dict[str, ReplicaConnection] = {}
        for connection in self._connections:
            known = furthest.get(connection.slave)
            if known is None or (connection.ack_offset or 0) > (known.ack_offset or 0):
                furthest[connection.slave] = connection
        return [connection.status() for connection in furthest.values()]

    def in_sync_count(self) -> int:
        """Return the number of slaves that are less than haMaxGapNotInSync behind."""
        return sum(status.in_sync for status in self.status())

    def _accept(self) -> ReplicaConnection:
        return SlaveConnection(self._store, self._config, self._clock, self._changed, self._log_limit)

    def _changed(self, connection: ReplicaConnection) -> None:
        if not connection.is_open:
            self._connections.discard(connection)
        elif connection not in self._connections:
            if len(self._connections) >= _CONNECTIONS_MAX:
                level = self._log_limit.level()
                log.log(level, "slave %s is refused: %d are connected already", connection.address, _CONNECTIONS_MAX)
                connection.close()
                return
            self._connections.add(connection)
        self._note_copies()

    def _note_copies(self) -> None:
        if isinstance(self._store.copies, ReplicaAcks):
            self._store.copies.update(self._reported())

    def _reported(self) -> dict[str, int]:
        """Return how far each slave holds the log. Several connections of a slave count once."""
        reported: dict[str, int] = {}
        for connection in self._connections:
            if connection.ack_offset is not None:
                reported[connection.slave] = max(connection.ack_offset, reported.get(connection.slave, 0))
        return reported
