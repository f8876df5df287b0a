"""Pulls that carry far more than consumers ask for, as long as those who ask also read."""

from kerolox.remoting.connection import Connection
from kerolox.store.configuration import StoreConfig

# So many may be reading in bulk at the same time, which is more than enough to keep a disk busy.
READERS_MAX = 1024


class BulkPulls:
    """Who pulls in bulk, and how much of what they were given still lies here unread."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._readers: set[Connection] = set()

    def admits(self, connection: Connection, bytes_asked: int) -> bool:
        """Whether a pull is answered with bulk bounds: it must ask for it, and not too much may lie unread."""
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
