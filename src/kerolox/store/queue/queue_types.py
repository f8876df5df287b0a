"""Types of consume queues: SimpleCQ, and BatchCQ of RocketMQ 5.x, which is not supported (CQType)."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kerolox.runtime.files import Disk

# Topic attribute, and its value for queues whose records are batches.
QUEUE_TYPE = "queue.type"
BATCH_QUEUE = "BatchCQ"

_BATCH_DIRECTORY = "batchconsumequeue"


def batch_topics(disk: Disk, root: Path) -> list[str]:
    """Return the topics that have queues of type BatchCQ; Java 5.x keeps them in a separate directory."""
    return sorted(disk.names(root / _BATCH_DIRECTORY))


def mistyped(disk: Disk, root: Path, attributes: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[str]:
    """Return the topics whose attributes declare BatchCQ although they have no such queue.

    `attributes` are pairs of topic and its attributes. Java 5.x does not start on a store in which such a topic has
    queues of type SimpleCQ (ConsumeQueueStore.queueTypeShouldBe).
    """
    batches = set(batch_topics(disk, root))
    return [
        topic for topic, given in attributes if (given or {}).get(QUEUE_TYPE) == BATCH_QUEUE and topic not in batches
    ]
