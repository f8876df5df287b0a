"""The part of a broker in its group: which broker it follows, and which brokers follow it (HAService)."""

import asyncio
import logging
from typing import Any

import msgspec

from kerolox.broker.parts import BrokerParts
from kerolox.broker.replication.metadata_copy import MetadataCopy
from kerolox.errors import ConfigurationError, KeroloxError, reason
from kerolox.remoting.address import format_address, parse_address
from kerolox.remoting.client import Client
from kerolox.remoting.server.listener import check_free
from kerolox.replication.client import ReplicationClient
from kerolox.replication.server import ReplicationServer
from kerolox.runtime.service import Service
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.offsets import HaRuntimeInfo
from kerolox.wire.headers.broker import GetBrokerRuntimeInfo
from kerolox.wire.headers.replication import HaInfo

log = logging.getLogger(__name__)

# Java's `HAConnectionState` of a client that follows nobody.
_NO_CLIENT = {
    "activated": False,
    "lastReadTimestamp": 0,
    "lastWriteTimestamp": 0,
    "maxOffset": 0,
    "transferredByteInSecond": 0,
}


class Replication(Service):
    """A master sends its log to slaves; a slave follows the master that NameServers name.

    haMasterAddress, if set, replaces the address for the log that NameServers name.
    """

    def __init__(self, parts: BrokerParts, client: Client, metadata_copy: MetadataCopy) -> None:
        config, clock = parts.settings.replication, parts.clock
        self._parts = parts
        self._store = parts.store
        self._client = client
        self.metadata_copy = metadata_copy
        self._fixed_ha_address = config.ha_master_address.strip() or None
        if self._fixed_ha_address is not None:
            parse_address(self._fixed_ha_address)
        self._listening: tuple[str, int] | None = None
        self.server: ReplicationServer | None = None
        self.log_copy: ReplicationClient | None = None
        if self.is_slave:
            self.log_copy = ReplicationClient(parts.store, config, clock)
        else:
            host, port = self._listening = parts.settings.ha_host, parts.settings.ha_port
            self.server = ReplicationServer(parts.store, config, clock, host=host, port=port)
        # The master, and its address for the log, that `run` has not acted on yet.
        self._wanted: tuple[str | None, str] | None = None
        self._is_wanted = asyncio.Event()
        # The end of the master's log when it started. As in RocketMQ nothing is cut by it; operators see and set it.
        self.master_flush_offset = 0

    @property
    def is_slave(self) -> bool:
        return self._store.config.is_slave

    @property
    def has_master(self) -> bool:
        """Whether a slave knows a living master."""
        return self.metadata_copy.master is not None

    def services(self) -> list[Service]:
        """Return the services of the broker's role, in the order in which they open."""
        if self.server is not None:
            return [self.server, self]
        assert self.log_copy is not None
        return [self.metadata_copy, self.log_copy, self]

    async def check_port(self) -> None:
        """ConfigurationError if a master cannot listen for slaves; called before the store is opened."""
        if self._listening is None:
            return
        try:
            await check_free(*self._listening)
        except (OSError, OverflowError) as error:
            where = format_address(self._listening)
            raise ConfigurationError(f"cannot listen for slaves on {where} (haListenPort): {reason(error)}") from error

    async def open(self) -> None:
        if not self.is_slave:
            self.master_flush_offset = self._store.log.end_offset
        elif self._fixed_ha_address is not None:
            self._want(None, self._fixed_ha_address)

    async def run(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            wanted, self._wanted = self._wanted, None
            if wanted is not None and self.log_copy is not None:
                master, ha_address = wanted
                min_offset = await self._min_offset(master) if self._store.is_empty else 0
                try:
                    if not self.log_copy.status().activated:
                        # The master may be back: connect now, not after the pause of a failed attempt.
                        self.log_copy.set_master(None)
                    self.log_copy.set_master(ha_address, min_offset=min_offset)
                except ConfigurationError as error:
                    log.error("the log is not copied: %s", error)

    def follow(self, master: str | None, ha_address: str | None) -> None:
        """Copy from a master; metadata from nowhere if there is none. Does nothing on a master.

        Without an `ha_address` the log is copied from where it was copied before, as in RocketMQ.
        """
        if not self.is_slave:
            return
        self.metadata_copy.set_master(master)
        if self._fixed_ha_address is None and ha_address is not None:
            self._want(master, ha_address)

    def _want(self, master: str | None, ha_address: str) -> None:
        self._wanted = master, ha_address
        self._is_wanted.set()

    async def _min_offset(self, master: str | None) -> int:
        """Return where the log of a master begins, which Java's masters do not tell in the stream; 0 if unknown."""
        if master is None:
            return 0
        try:
            reply = await self._client.call(master, GetBrokerRuntimeInfo())
            return int(KVTable.decode(reply.body).table.get("commitLogMinOffset", "0"))
        except (KeroloxError, OSError, ValueError) as error:
            log.debug("the beginning of the log of %s is unknown: %s", master, error)
            return 0

    # For operators and other brokers

    def ha_info(self) -> HaInfo:
        """Return the addresses of this master; nothing on a slave."""
        if self.is_slave:
            return HaInfo()
        addresses = self._parts.addresses
        return HaInfo(
            master_ha_address=addresses.ha_address,
            master_flush_offset=self.master_flush_offset,
            master_address=addresses.address,
        )

    def runtime_info(self) -> HaRuntimeInfo:
        slaves = [] if self.server is None else self.server.status()
        client: dict[str, Any] = _NO_CLIENT
        if self.log_copy is not None:
            client = msgspec.to_builtins(self.log_copy.status())
        return HaRuntimeInfo(
            ha_client_runtime_info={**client, "masterFlushOffset": self.master_flush_offset},
            ha_connection_info=[msgspec.to_builtins(slave) for slave in slaves],
            in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            master=not self.is_slave,
            master_commit_log_max_offset=0 if self.is_slave else self._store.log.end_offset,
        )
