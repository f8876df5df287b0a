"""The part of a broker in its group: which broker it follows, and who follows it (HAService, ReplicasManager)."""

from kerolox.broker.config import MASTER_ID
from kerolox.broker.parts import BrokerParts
from kerolox.broker.replication.metadata_copy import MetadataCopy
from kerolox.runtime.service import Service
from kerolox.wire.bodies.offsets import HaRuntimeInfo
from kerolox.wire.headers.replication import HaInfo


class Replication:
    """Follows the master that NameServers, or the master itself, name; tells operators how far copies are."""

    def __init__(self, parts: BrokerParts, metadata_copy: MetadataCopy) -> None:
        self._parts = parts
        self._store = parts.store
        self.metadata_copy = metadata_copy
        # The end of the master's log when it started. As in RocketMQ nothing is cut by it; operators see and set it.
        self.master_flush_offset = 0

    @property
    def is_slave(self) -> bool:
        return self._store.config.is_slave

    def services(self) -> list[Service]:
        return [self.metadata_copy] if self.is_slave else []

    def follow(self, master: str | None, ha_address: str | None) -> None:
        """Copy from a master; metadata from nowhere if there is none. Does nothing on a master."""
        if self.is_slave:
            self.metadata_copy.set_master(master)

    def ha_info(self) -> HaInfo:
        """Return the addresses of this master; nothing on a slave."""
        if self.is_slave or self._parts.config.broker_id != MASTER_ID:
            return HaInfo()
        addresses = self._parts.addresses
        return HaInfo(
            master_ha_address=addresses.ha_address,
            master_flush_offset=self.master_flush_offset,
            master_address=addresses.address,
        )

    def runtime_info(self) -> HaRuntimeInfo:
        client = {
            "activated": False,
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": self.master_flush_offset,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        }
        return HaRuntimeInfo(
            ha_client_runtime_info=client,
            master=not self.is_slave,
            master_commit_log_max_offset=self._store.log.end_offset,
        )
