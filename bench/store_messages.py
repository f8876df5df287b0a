"""The messages of the store benchmark: like those of a Java client, with a tag."""

from __future__ import annotations

import random
from pathlib import Path

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.log.commit_log import Append

QUEUES_PER_TOPIC = 1_000
_SEED = 20_261_115


def drafts(body_size: int, count: int, queues: int = 1, first: int = 0, *, has_keys: bool = False) -> list[Append]:
    """Return messages for `queues` queues in turn; each has a unique id, and optionally two keys."""
    body = random.Random(_SEED).randbytes(body_size + 256)
    numbers = range(first, first + count)
    return [_draft(body[number % 256 :][:body_size], number, queues, has_keys=has_keys) for number in numbers]


def _draft(body: bytes, number: int, queues: int, *, has_keys: bool) -> Append:
    topic = f"bench-{number % queues // QUEUES_PER_TOPIC}"
    queue_id = number % queues % QUEUES_PER_TOPIC
    properties = {
        "UNIQ_KEY": f"7F000001{4711:08X}{0x18B4AAC2:08X}{number:08X}",
        "WAIT": "true",
        "TAGS": f"tag-{number % 8}",
    }
    if has_keys:
        properties["KEYS"] = f"order-{number:08d} customer-{number * 7919 % 100_000:06d}"
    return Append(topic, queue_id, encode(Message(topic, body, to_bytes(properties), queue_id=queue_id)))


def config(directory: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> StoreConfig:
    """Return the settings of a store with default sizes."""
    return StoreConfig(store_path_root_dir=directory / "store", flush_disk_type=flush)
