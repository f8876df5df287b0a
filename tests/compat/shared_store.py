"""A store directory that Java and Kerolox use in turn: settings for both, and functions to read it with Kerolox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kerolox.message import property_names
from kerolox.message.records.record import decode
from kerolox.store.check.check import check
from kerolox.store.check.report import Report
from kerolox.store.config import FlushDiskType, StoreConfig
from kerolox.store.delay.delay_levels import HALF_TOPIC
from kerolox.store.reader import GetStatus
from kerolox.store.store import Store
from tests.compat.broker_reader import KEY_HITS_MAX, Contents, KeyOffsets
from tests.compat.sent_messages import DIVERTED, UNKNOWN_OFFSET_ID, SentMessage, digest

LOG_FILE_SIZE = 1 << 20
QUEUE_FILE_SIZE = 2000
INDEX_SLOTS, INDEX_ENTRIES = 500, 400


def broker_properties(root: Path, **more: str) -> dict[str, str]:
    """Return settings of a Java broker; with these sizes a few hundred messages fill several files of each kind."""
    return {
        "storePathRootDir": str(root),
        "storePathCommitLog": str(root / "commitlog"),
        "mappedFileSizeCommitLog": str(LOG_FILE_SIZE),
        "mappedFileSizeConsumeQueue": str(QUEUE_FILE_SIZE),
        "maxHashSlotNum": str(INDEX_SLOTS),
        "maxIndexNum": str(INDEX_ENTRIES),
        # No transaction checks, unless a test wants them.
        "transactionCheckInterval": "3600000",
        "transactionTimeOut": "3600000",
        # 5.x would batch op messages for three seconds, and check the transactions again meanwhile.
        "transactionOpBatchInterval": "100",
        **more,
    }


def configuration(root: Path, flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> StoreConfig:
    """Return the same settings for our store."""
    return StoreConfig(
        store_path_root_dir=root,
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES,
        flush_disk_type=flush,
    )


def checked(root: Path) -> Report:
    """Check a cleanly stopped store and return the report; fail if there is any problem."""
    report = check(configuration(root))
    assert report.complaints == []
    assert report.is_clean
    return report


def files_in(root: Path) -> tuple[int, int, int]:
    """Return the number of files of the commit log, of the longest consume queue, and of the key index."""
    queues = [len(list(path.iterdir())) for path in (root / "consumequeue").glob("*/*")]
    return len(list((root / "commitlog").iterdir())), max(queues), len(list((root / "index").iterdir()))


def by_queue(store: Store) -> Contents:
    """Return the records of all queues, read as a consumer reads them."""
    contents = {(topic, queue_id): _records(store, topic, queue_id) for (topic, queue_id), _ in store.queues.items()}
    return {queue: records for queue, records in contents.items() if records}


def _records(store: Store, topic: str, queue_id: int) -> list[bytes]:
    queue = store.queues.get(topic, queue_id)
    assert queue is not None
    records: list[bytes] = []
    offset = queue.min_offset
    while offset < queue.max_offset:
        got = store.reader.get(topic, queue_id, offset)
        assert got.status is GetStatus.FOUND
        records += got.records
        offset = got.next_offset
    return records


def keys_of(contents: Contents) -> list[tuple[str, str]]:
    """Return every (topic, key or unique key) under which these records are indexed."""
    messages = [decode(record) for records in contents.values() for record in records]
    pairs = ((message.topic, key) for message in messages for key in (message.get("UNIQ_KEY"), *message.keys) if key)
    return list(dict.fromkeys(pairs))


def by_key(store: Store, keys: Iterable[tuple[str, str]]) -> KeyOffsets:
    return {
        (topic, key): sorted(
            {found.physical_offset for found in store.reader.find(topic, key.encode(), count_max=KEY_HITS_MAX)}
        )
        for topic, key in keys
    }


def by_id(store: Store, offset_id: str) -> bytes:
    record = store.reader.record_of_id(offset_id)
    assert record is not None
    return record


def assert_holds(store: Store, sent: Iterable[SentMessage], topic: str) -> None:
    """Assert that every sent message is at its acknowledged offset, with its keys and its decompressed body."""
    for one in sent:
        message = decode(by_id(store, _offset_id(store, one)), check_crc=True)
        offset_id = UNKNOWN_OFFSET_ID if one.offset_id == UNKNOWN_OFFSET_ID else message.offset_id
        found = SentMessage(
            one.kind,
            message.get(property_names.UNIQ_KEY) or "",
            offset_id,
            message.queue_offset,
            digest(message),
            tuple(message.keys),
        )
        assert found == one
        assert (message.topic == topic) is (one.kind not in DIVERTED), one


def _offset_id(store: Store, sent: SentMessage) -> str:
    if sent.offset_id != UNKNOWN_OFFSET_ID:
        return sent.offset_id
    # The oldest record is the sent one: each transaction check stores the half message again.
    oldest = store.reader.find(HALF_TOPIC, sent.unique_key.encode())[-1]
    record = store.reader.record_at(oldest.physical_offset)
    assert record is not None
    return decode(record).offset_id
