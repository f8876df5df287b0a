"""Bulk pulls: responses larger than those of ordinary pulls, limited by the memory of unsent responses."""

from kerolox.remoting.connection import Connection
from kerolox.store.config import StoreConfig

# Connections that may have bulk responses at the same time; far fewer keep a disk busy.
READERS_MAX = 1024


class BulkPulls:
    """The connections that pull in bulk and have not received their responses completely."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._readers: set[Connection] = set()

    def admits(self, connection: Connection, bytes_asked: int) -> bool:
        """Whether a pull gets a bulk response: it asks for one, and unsent responses leave enough memory."""
        if bytes_asked <= self._config.max_transfer_bytes_on_message_in_memory:
            return False
        sizes = {reader: reader.unsent_size for reader in self._readers if not reader.is_closed}
        self._readers = {reader for reader, size in sizes.items() if size}
        if len(self._readers) >= READERS_MAX:
            return False
        if sum(sizes.values()) + self._config.bulk_pull_bytes_max > self._config.bulk_pull_bytes_pending_max:
            return False
        self._readers.add(connection)
        return True
