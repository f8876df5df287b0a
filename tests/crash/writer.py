"""Writes messages to a real store, and reports on stdout which are stored; tests kill it at any moment.

    python -m tests.crash.writer DIRECTORY FLUSH FIRST COUNT

One line for each stored message: its number, then topic, queue id and queue offset. A COUNT of 0 has no end.
"""

import asyncio
import itertools
import os
import random
import sys
from pathlib import Path

from kerolox.message.message import Message
from kerolox.message.properties import to_bytes
from kerolox.message.records.record import encode
from kerolox.runtime.service import Supervisor
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.errors import StoreError
from kerolox.store.log.commit_log import Append
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store

TOPICS = ("orders", "bills")
QUEUES = 2
GROUP = 4
REFUSALS_MAX = 20


def configuration(directory: Path, flush: FlushDiskType) -> StoreConfig:
    """Small files, so that files are rolled often."""
    return StoreConfig(
        store_path_root_dir=directory,
        mapped_file_size_commit_log=16 * 1024,
        mapped_file_size_consume_queue=20 * 16,
        max_hash_slot_num=50,
        max_index_num=100,
        flush_disk_type=flush,
        flush_interval_commit_log=20,
        flush_interval_consume_queue=10,
    )


def body_of(number: int) -> bytes:
    """The body of message `number`, which the reader can compute as well."""
    return b"%d:" % number + b"x" * random.Random(number).randrange(2000)


def queue_of(number: int) -> tuple[str, int]:
    return TOPICS[number % len(TOPICS)], number // len(TOPICS) % QUEUES


async def write(directory: Path, flush: FlushDiskType, first: int, count: int) -> None:
    store = Store(configuration(directory, flush))
    refusals = 0
    async with Supervisor(store):
        os.write(1, b"open\n")
        for start in itertools.count(first, GROUP):
            if (count and start >= first + count) or refusals > REFUSALS_MAX:
                return
            numbers = range(start, start + GROUP)
            outcomes = await asyncio.gather(*(put(store, number) for number in numbers), return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, StoreError):
                    refusals += 1
                elif isinstance(outcome, BaseException):
                    raise outcome
                elif outcome:
                    os.write(1, outcome)


async def put(store: Store, number: int) -> bytes:
    """Return the line that reports a message as stored; empty if it is stored but not durably."""
    topic, queue_id = queue_of(number)
    properties = to_bytes({"KEYS": f"k{number}", "TAGS": "red"})
    record = encode(Message(topic, body_of(number), properties, queue_id))
    appended, status = await store.put(Append(topic, queue_id, record))
    return (
        b"%d %s %d %d\n" % (number, topic.encode(), queue_id, appended.queue_offset) if status is AckStatus.OK else b""
    )


def main() -> None:
    directory, flush, first, count = sys.argv[1:]
    try:
        asyncio.run(write(Path(directory), FlushDiskType(flush), int(first), int(count)))
    except* StoreError as refused:
        os.write(2, f"refused: {refused.exceptions}\n".encode())


if __name__ == "__main__":
    main()
