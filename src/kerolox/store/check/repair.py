"""Repairs problems found by a check that have exactly one correction."""

from pathlib import Path
from typing import Any

from kerolox.runtime.files import Disk, RealDisk
from kerolox.store.check.tables import topic_attributes
from kerolox.store.lock import take_lock
from kerolox.store.queue.queue_types import QUEUE_TYPE, mistyped
from kerolox.store.tables import TOPICS, JsonTable


def repair_queue_types(root: Path, disk: Disk | None = None) -> list[str]:
    """Remove `queue.type=BatchCQ` from topics that have no such queue; returns their names.

    Everything else in topics.json stays unchanged. StoreLocked if a broker has the store open, since it would write the
    table again. StoreDamaged if topics.json cannot be read.
    """
    disk = disk or RealDisk()
    lock = take_lock(root / "lock")
    try:
        table = JsonTable[dict[str, Any]](disk, root / "config" / TOPICS, dict[str, Any])
        content = table.load() or {}
        attributes = dict(topic_attributes(content))
        topics = mistyped(disk, root, attributes.items())
        for topic in topics:
            del attributes[topic][QUEUE_TYPE]
        if topics:
            table.persist(content)
        return topics
    finally:
        lock.release()
