"""What a sender says of each message it has sent: Kinds.java, and our own `extending`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from kerolox.message.compression import decompress
from kerolox.message.message import Message

# Kinds that a consumer of the topic gets, sooner or later; the others wait elsewhere for hours, or for ever.
VISIBLE = frozenset(
    {"plain", "batch", "compressed", "large", "ipv6", "delivered", "delayed", "timer", "committed"},
)
# Kinds whose record lies in a queue of its own, until it is due or decided.
DIVERTED = frozenset(
    {"delayed", "delayed long", "timer", "timer long", "committed", "rolled back", "pending"},
)

# Java's producers do not learn the offset ids of their transactions.
UNKNOWN = "null"

_BODY_SIZE_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sent:
    """Where the message was stored, which for a diverted kind is not yet its own topic, and its body's SHA-256."""

    kind: str
    unique_key: str
    offset_id: str
    queue_offset: int
    digest: str
    keys: tuple[str, ...]

    def line(self) -> str:
        words = (self.kind, self.unique_key, self.offset_id, str(self.queue_offset), self.digest, " ".join(self.keys))
        return "\t".join(words)


def parse(lines: Iterable[str]) -> list[Sent]:
    """Returns what the lines of a sender say."""
    sent: list[Sent] = []
    for line in lines:
        if line.count("\t") == 5:
            kind, unique_key, offset_id, queue_offset, digest, keys = line.split("\t")
            sent.append(Sent(kind, unique_key, offset_id, int(queue_offset), digest, tuple(keys.split(" "))))
    return sent


def digest(message: Message) -> str:
    """The SHA-256 of the body as its sender knew it."""
    return hashlib.sha256(decompress(message.body, message.sys_flag, _BODY_SIZE_MAX)).hexdigest()


def visible(sent: Iterable[Sent]) -> dict[str, str]:
    """Returns the digest of every message that a consumer gets, by its unique key."""
    return {one.unique_key: one.digest for one in sent if one.kind in VISIBLE}
