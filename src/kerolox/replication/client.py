"""The slave's end of the classic stream: follows the log of its master (DefaultHAClient)."""

import logging
import secrets

from kerolox.replication.classic_stream import (
    WHOLE_LOG,
    FrameParser,
    StreamError,
    encode_identity,
    encode_report,
)
from kerolox.replication.config import ReplicationConfig
from kerolox.replication.log_client import LogClient
from kerolox.runtime.clock import Clock
from kerolox.store.store import Store

log = logging.getLogger(__name__)


class ReplicationClient(LogClient):
    """Copies the log of the master that `set_master` names, from the end of its own log on; an empty one as a whole."""

    def __init__(self, store: Store, config: ReplicationConfig, clock: Clock) -> None:
        super().__init__(store, config, clock)
        self._min_offset = 0
        # Distinguishes this slave from others on the same host.
        self._identity = secrets.randbits(63)
        # Whether an empty slave asks for the last file only, because the master does not hold the beginning of its log.
        self._wants_last_file = False
        self._frames = FrameParser()
        # The first report of this connection.
        self._asked = 0

    def set_master(self, address: str | None, *, min_offset: int = 0) -> None:
        """Follow the master that listens for slaves at `address`; None to follow nobody.

        `min_offset` is where the log of a master of RocketMQ's begins, if known, for an empty slave to copy all of it;
        masters of our own need not be asked. ConfigurationError if the address is malformed.
        """
        if self._set_address(address):
            self._wants_last_file = False
        self._min_offset = min_offset

    def _greet(self) -> None:
        self._frames = FrameParser()
        self._asked = self._reported = asked = self._first_report()
        log.info("replicating from %s, from %s on", self._master, "the beginning" if asked == WHOLE_LOG else asked)
        self._write(encode_identity(self._identity) + encode_report(asked))

    def _first_report(self) -> int:
        if not self._store.is_empty:
            return self._store.held_offset
        if self._wants_last_file:
            return 0
        return max(WHOLE_LOG, self._min_offset)

    async def _receive(self, data: bytes) -> None:
        for offset, piece in _joined(list(self._frames.feed(data))):
            await self._take(offset, piece)

    async def _take(self, offset: int, piece: bytes) -> None:
        store = self._store
        if store.is_empty and offset == self._asked == WHOLE_LOG:
            # A master of RocketMQ's.
            if not piece:
                self._wants_last_file = True
                raise StreamError("the master has no bytes at the beginning of its log, asking for its last file")
            offset, piece = 0, b"\0" + piece
        if piece:
            await store.append_copy(offset, piece)
        elif offset != store.copy_offset and not store.is_empty:
            raise StreamError(f"the master continues at {offset}, this copy ends at {store.copy_offset}")

    def _encode_report(self, held: int) -> bytes:
        return encode_report(held)

    def _heartbeat(self) -> bytes:
        # An empty slave has asked for bytes that it does not hold.
        return encode_report(0 if self._store.is_empty else self._reported)


def _joined(pieces: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join pieces of the log that follow each other, so that they are written together."""
    joined: list[tuple[int, list[bytes], int]] = []
    for offset, piece in pieces:
        if joined and piece and joined[-1][2] == offset and joined[-1][1][0]:
            start, parts, end = joined[-1]
            parts.append(piece)
            joined[-1] = start, parts, end + len(piece)
        else:
            joined.append((offset, [piece], offset + len(piece)))
    return [(offset, parts[0] if len(parts) == 1 else b"".join(parts)) for offset, parts, _ in joined]
