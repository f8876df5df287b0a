"""The line that a sender (Kinds.java or `store_writer`) prints for each message."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from kerolox.message.compression import decompress
from kerolox.message.message import Message

# Kinds that a consumer of the topic gets within a minute; the others stay in system topics.
VISIBLE = frozenset(
    {"plain", "batch", "compressed", "large", "ipv6", "delivered", "delayed", "timer", "committed"},
)
# Kinds that are first stored in a system topic, until they are due, committed or rolled back.
DIVERTED = frozenset(
    {"delayed", "delayed long", "timer", "timer long", "committed", "rolled back", "pending"},
)

# Java's producers do not learn the offset ids of their transactions.
UNKNOWN_OFFSET_ID = "null"

_BODY_SIZE_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A sent message: where it was stored (for a diverted kind, in a system topic), and the SHA-256 of its body."""

    kind: str
    unique_key: str
    offset_id: str
    queue_offset: int
    digest: str
    keys: tuple[str, ...]

    def line(self) -> str:
        words = (self.kind, self.unique_key, self.offset_id, str(self.queue_offset), self.digest, " ".join(self.keys))
        return "\t".join(words)


def parse(lines: Iterable[str]) -> list[SentMessage]:
    """Parse the lines of a sender."""
    sent: list[SentMessage] = []
    for line in lines:
        if line.count("\t") == 5:
            kind, unique_key, offset_id, queue_offset, digest, keys = line.split("\t")
            sent.append(SentMessage(kind, unique_key, offset_id, int(queue_offset), digest, tuple(keys.split(" "))))
    return sent


def digest(message: Message) -> str:
    """Return the SHA-256 of the decompressed body."""
    return hashlib.sha256(decompress(message.body, message.sys_flag, _BODY_SIZE_MAX)).hexdigest()


def visible(sent: Iterable[SentMessage]) -> dict[str, str]:
    """Return the messages that a consumer gets: unique key → digest."""
    return {one.unique_key: one.digest for one in sent if one.kind in VISIBLE}
