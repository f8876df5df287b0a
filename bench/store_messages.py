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
MIXED_TOPICS = 12
_MIXED_SIZE_MAX = 4096
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


def mixed_drafts(count: int, first: int = 0) -> list[Append]:
    """Return messages of several topics with bodies of 20 B to 4 KiB; most have a tag, and up to three keys."""
    drawn = random.Random(_SEED + first)
    text = drawn.randbytes(_MIXED_SIZE_MAX)
    return [_mixed_draft(text, number, drawn) for number in range(first, first + count)]


def _mixed_draft(text: bytes, number: int, drawn: random.Random) -> Append:
    topic, queue_id = f"mixed-{10 ** (number % MIXED_TOPICS)}", number % 8
    properties = {"UNIQ_KEY": f"7F000001{4711:08X}{0x18B4AAC2:08X}{number:08X}", "WAIT": "true"}
    if drawn.random() < 0.8:
        properties["TAGS"] = "tag-of-a-message-type"[: drawn.randint(1, 20)]
    if drawn.random() < 0.8:
        keys = [f"order-{drawn.randrange(10 ** drawn.randint(1, 8))}" for _ in range(drawn.choice((1, 1, 1, 2, 3)))]
        properties["KEYS"] = " ".join(keys)
    body = text[: int(20 * (_MIXED_SIZE_MAX / 20) ** drawn.random())]
    return Append(topic, queue_id, encode(Message(topic, body, to_bytes(properties), queue_id=queue_id)))


def config(directory: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> StoreConfig:
    """Return the settings of a store with default sizes."""
    return StoreConfig(store_path_root_dir=directory / "store", flush_disk_type=flush)
