"""A master's connection to one slave of the classic stream (DefaultHAConnection)."""

from collections.abc import Callable
from typing import Any

from kerolox.remoting.server.connection_limit import LogLimit
from kerolox.replication.classic_stream import WHOLE_LOG, ReportParser, StreamError, encode_header
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_connection import ReplicaConnection
from kerolox.runtime.clock import Clock
from kerolox.store.log.segments import INLINE_READ_SIZE_MAX
from kerolox.store.store import Store


class SlaveConnection(ReplicaConnection):
    """Sends the log from the offset that the slave reports first."""

    def __init__(
        self,
        store: Store,
        config: ReplicationConfig,
        clock: Clock,
        on_change: Callable[[Any], None],
        log_limit: LogLimit,
    ) -> None:
        super().__init__(store, config, clock, on_change, log_limit)
        self._reports = ReportParser()
        self.is_ours = False

    def _receive(self, data: bytes) -> None:
        for number in self._reports.feed(data):
            self._take(number)

    def _take(self, number: int) -> None:
        if self.ack_offset is not None:
            # A report of more than was sent would acknowledge messages that the slave does not have.
            if not 0 <= number <= self.transfer_offset:
                raise StreamError(f"it reports {number}, but was sent the log up to {self.transfer_offset} only")
            self.ack_offset = number
        elif number < 0:
            self.slave, self.is_ours = f"{number:x}", True
        else:
            self._begin(number)

    def _begin(self, reported: int) -> None:
        """Send the log from where the first report asks for."""
        first, end = self._store.log.first_offset, self._store.log.end_offset
        if reported == WHOLE_LOG:
            self._begin_sending(first, held=0)
        elif not reported:
            self._begin_sending(max(first, end - end % self._store.config.mapped_file_size_commit_log), held=0)
        elif first <= reported <= end:
            self._begin_sending(reported, held=reported)
        else:
            raise StreamError(
                f"it reports {reported}, but this log holds {first} to {end}; the slave has another log, or was away "
                "for too long: delete its store, so that it is copied anew"
            )

    def _chunk_size_max(self, offset: int) -> int:
        return INLINE_READ_SIZE_MAX if self.is_ours else self._config.ha_transfer_batch_size

    def _encode(self, offset: int, data: bytes) -> bytes:
        return encode_header(offset, len(data)) + data
