"""The master's end of replication in controller mode (AutoSwitchHAService)."""

from kerolox.replication.auto_switch.connection import AutoSwitchConnection, GroupMaster
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_connection import ReplicaConnection
from kerolox.replication.server import ReplicationServer
from kerolox.runtime.clock import Clock


class AutoSwitchServer(ReplicationServer):
    """Serves the replicas of a group while this broker is its master, each on one connection."""

    def __init__(self, master: GroupMaster, config: ReplicationConfig, clock: Clock, *, host: str, port: int) -> None:
        super().__init__(master.store, config, clock, host=host, port=port)
        self._master = master

    def _accept(self) -> ReplicaConnection:
        return AutoSwitchConnection(self._master, self._config, self._clock, self._changed, self._log_limit)

    def _tick(self) -> None:
        super()._tick()
        self._master.copies.check()

    def _changed(self, connection: ReplicaConnection) -> None:
        super()._changed(connection)
        assert isinstance(connection, AutoSwitchConnection)
        if connection.is_open and connection.broker_id is not None:
            for other in list(self._connections):
                if other is not connection and other.slave == connection.slave and _id_of(other) is not None:
                    other.close()
                    self._connections.discard(other)

    def _note_copies(self) -> None:
        """Connections tell `SyncStateCopies` themselves."""


def _id_of(connection: ReplicaConnection) -> int | None:
    assert isinstance(connection, AutoSwitchConnection)
    return connection.broker_id
