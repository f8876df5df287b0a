"""The store's settings, under the keys of RocketMQ's MessageStoreConfig."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Self

from kerolox.runtime.configuration import Properties, changeable

# What "pages" in the names of settings are.
PAGE_SIZE = 4096


class FlushDiskType(Enum):
    """When a sender is told that its message is stored: when it is written, or when it is durable."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class Hours(str):
    """Hours of the day, from 0 to 23, joined with semicolons; ValueError if one of them is not an hour."""

    numbers: frozenset[int]

    def __new__(cls, text: str) -> Self:
        hours = super().__new__(cls, text)
        hours.numbers = frozenset(int(hour) for hour in text.split(";") if hour.strip())
        if not hours.numbers <= set(range(24)):
            raise ValueError(f"{text!r} has an hour that no day has")
        return hours


@dataclass(slots=True)
class StoreConfig(Properties):
    store_path_root_dir: Path = field(default_factory=lambda: Path.home() / "store")
    # Below the root unless set.
    store_path_commit_log: Path | None = None

    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * 20
    max_message_size: int = 4 * 1024 * 1024
    # Bounds of our own: how many messages a batch may have, and how many keys they may have together.
    batch_parts_max: int = 32_768
    batch_keys_max: int = 65_536

    # A bit map for each message, by which a consumer's expression is judged without reading the message.
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    bit_map_length_consume_queue_ext: int = 64

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    # If fewer pages than these were written, the interval is this longer one. The original waits for 4, so that what
    # comes slowly may be lost for ten seconds; here it is synced with the first interval unless told otherwise.
    flush_commit_log_least_pages: int = 0
    flush_commit_log_thorough_interval: int = 10_000
    sync_flush_timeout: int = 5000
    flush_interval_consume_queue: int = 1000
    # A queue is synced when so many pages of it were written, and in any case after the interval (milliseconds).
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    # A bound of our own: more entries than these are not kept in memory, all queues together.
    queue_entries_pending_max: int = 1_000_000
    # A bound of our own: bytes of messages that wait for a sync (whether their senders do or not), or for the next file
    # of the log.
    put_bytes_pending_max: int = 256 * 1024 * 1024

    message_index_enable: bool = True
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 5_000_000 * 4

    # What one pull may carry: more of what was written lately, and is therefore in memory, than of older messages.
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    # Bounds of our own: what a pull may carry that asks for more bytes (maxMsgBytes) than those in memory, wherever
    # they are; and how much of that may lie here unread, of all who asked.
    bulk_pull_bytes_max: int = 4 * 1024 * 1024
    bulk_pull_count_max: int = 4096
    bulk_pull_bytes_pending_max: int = 256 * 1024 * 1024
    # In percent of the machine's memory.
    access_message_in_memory_max_ratio: int = 40
    # Bounds of our own: so much of what this process wrote last is served from mapped pages; what is older is read, and
    # if it is not in memory, in so many threads.
    mapped_bytes_max: int = 256 * 1024 * 1024
    cold_read_threads: int = 4
    # In bytes of a consume queue: so much of it is looked through for messages that match.
    max_filter_message_size: int = 16000
    # A bound of our own: for so many milliseconds one pull judges messages by what is in them.
    pull_look_millis_max: int = 50
    # A replica leaves offsets that it does not know of alone, unless this is set.
    offset_check_in_slave: bool = False

    # At most so many are found by a key, and so many by a unique key.
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32

    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = changeable(10_000, 100)

    # When files are deleted, and how many; hours of local time, and milliseconds between them.
    file_reserved_time: int = changeable(72, 0)
    delete_when: Hours = Hours("04")
    delete_file_batch_max: int = changeable(10, 1)
    delete_commit_log_files_interval: int = changeable(100, 0)
    clean_resource_interval: int = changeable(10_000, 100)
    # In percent of the disk. Whatever they say, the first counts as 10 to 95, the second as 30 to 85, the last as
    # 35 to 90.
    disk_max_used_space_ratio: int = changeable(75)
    disk_space_clean_forcibly_ratio: int = changeable(85)
    disk_space_warning_level_ratio: int = changeable(90)
    clean_file_forcibly_enable: bool = changeable(True)

    timer_wheel_enable: bool = True
    # One of 100, 200, 500 and 1000; any other counts as the next below it.
    timer_precision_ms: int = 1000
    # Messages further away than this are entered again on their way.
    timer_roll_window_slot: int = 3600 * 24 * 2
    timer_max_delay_sec: int = 3600 * 24 * 3
    # When more messages are due within one slot, those that follow are refused.
    timer_congest_num_each_slot: int = 2**31 - 1
    timer_flush_interval_ms: int = 1000
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    # Whether a recall names the topic of what it recalls, as 5.3 does; 5.5 does not unless told to.
    append_topic_for_timer_delete_key: bool = False
    mapped_file_size_timer_log: int = 100 * 1024 * 1024

    # A bound the original does not have: more files than these are closed and opened again on demand. With the key
    # index and what else a process has open they stay below 4,000.
    open_files_max: int = 3900

    @property
    def commit_log_directory(self) -> Path:
        return self.store_path_commit_log or self.store_path_root_dir / "commitlog"
