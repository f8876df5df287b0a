"""Settings of the store (MessageStoreConfig)."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Self

from kerolox.runtime.config import Properties, changeable, formerly

# The unit of settings with "pages" in their names.
PAGE_SIZE = 4096


class FlushDiskType(Enum):
    """When a send is acknowledged: once it is written, or once it is durable."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(Enum):
    """The part of a broker in its group. A slave copies the log of its master, and stores nothing of its own."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class Hours(str):
    """Hours of the day from 0 to 23, separated by semicolons; ValueError if one is not an hour."""

    numbers: frozenset[int]

    def __new__(cls, text: str) -> Self:
        hours = super().__new__(cls, text)
        hours.numbers = frozenset(int(hour) for hour in text.split(";") if hour.strip())
        if not hours.numbers <= set(range(24)):
            raise ValueError(f"{text!r} contains a number that is not an hour (0 to 23)")
        return hours


@dataclass(slots=True)
class StoreConfig(Properties):
    """Settings under RocketMQ's keys; "not in RocketMQ" marks those of our own."""

    # ASYNC_MASTER; SYNC_MASTER, whose sends may wait for slaves (inSyncReplicas); or SLAVE, which copies a master.
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER

    # Directory of the store.
    store_path_root_dir: Path = field(default_factory=lambda: Path.home() / "store")
    # Directory of the commit log; `commitlog` below the root by default.
    store_path_commit_log: Path | None = None

    # Size of a commit log file in bytes.
    mapped_file_size_commit_log: int = formerly("mapedFileSizeCommitLog", 1024 * 1024 * 1024)
    # Size of a consume queue file in bytes; an entry takes 20.
    mapped_file_size_consume_queue: int = formerly("mapedFileSizeConsumeQueue", 300_000 * 20)
    # Largest message body in bytes.
    max_message_size: int = 4 * 1024 * 1024
    # Most messages in a batch. Not in RocketMQ.
    batch_parts_max: int = 32_768
    # Most keys of all messages of a batch together. Not in RocketMQ.
    batch_keys_max: int = 65_536

    # Keep a bit map per message, by which SQL92 filters are evaluated without reading the message.
    enable_consume_queue_ext: bool = False
    # Size of a file with such bit maps in bytes.
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    # Bits per bit map.
    bit_map_length_consume_queue_ext: int = 64

    # ASYNC_FLUSH acknowledges a message once it is written, SYNC_FLUSH once it is durable.
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    # Milliseconds between two syncs of the commit log with ASYNC_FLUSH.
    flush_interval_commit_log: int = 500
    # If fewer pages of 4 KiB were written, `flushCommitLogThoroughInterval` applies. RocketMQ's default is 4, so that
    # the last ten seconds of slow traffic may be lost; with 0 every interval syncs.
    flush_commit_log_least_pages: int = 0
    # Milliseconds after which few written pages are synced, too.
    flush_commit_log_thorough_interval: int = 10_000
    # Milliseconds that a send waits for a sync with SYNC_FLUSH; then it is answered with FLUSH_DISK_TIMEOUT.
    sync_flush_timeout: int = 5000
    # Milliseconds between two writes of consume queues.
    flush_interval_consume_queue: int = 1000
    # A consume queue is synced when as many pages of it were written.
    flush_consume_queue_least_pages: int = 2
    # Milliseconds after which all consume queues and the index are synced.
    flush_consume_queue_thorough_interval: int = 60_000
    # Most unwritten entries of all consume queues together. Not in RocketMQ.
    queue_entries_pending_max: int = 1_000_000
    # Most bytes of messages that wait for a sync (whether or not their senders do) or for the next commit log file.
    # Not in RocketMQ.
    put_bytes_pending_max: int = 256 * 1024 * 1024

    # Index messages by key and unique key.
    message_index_enable: bool = True
    # Hash slots of an index file.
    max_hash_slot_num: int = 5_000_000
    # Entries of an index file.
    max_index_num: int = 5_000_000 * 4

    # Most bytes of one pull, if the messages were written recently and are in memory.
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    # Most messages of one pull, if they are in memory.
    max_transfer_count_on_message_in_memory: int = 32
    # Most bytes of one pull of older messages.
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    # Most messages of one pull of older messages.
    max_transfer_count_on_message_in_disk: int = 8
    # Most bytes of a pull that asks for more (maxMsgBytes) than the limit for messages in memory. Not in RocketMQ.
    bulk_pull_bytes_max: int = 4 * 1024 * 1024
    # Most messages of such a pull. Not in RocketMQ.
    bulk_pull_count_max: int = 4096
    # Most bytes of such responses that consumers have not read yet, all together. Not in RocketMQ.
    bulk_pull_bytes_pending_max: int = 256 * 1024 * 1024
    # Messages count as in memory within this percentage of the machine's memory.
    access_message_in_memory_max_ratio: int = 40
    # Bytes at the end of the log that are served from mapped pages; older messages are read. Not in RocketMQ.
    mapped_bytes_max: int = 256 * 1024 * 1024
    # Threads that read messages which are not in memory. Not in RocketMQ.
    cold_read_threads: int = 4
    # Bytes of a consume queue that one pull examines for matching messages.
    max_filter_message_size: int = 16000
    # Milliseconds that one pull filters messages by their properties. Not in RocketMQ.
    pull_look_millis_max: int = 50
    # Whether a slave corrects offsets that it does not know.
    offset_check_in_slave: bool = False

    # Most messages found by a key.
    max_msgs_num_batch: int = 64
    # Most messages found by a unique key.
    default_query_max_num: int = 32

    # Delays of the levels 1 to 18; each is a number and s, m, h or d.
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    # Milliseconds between two saves of the delivery progress of delay levels.
    flush_delay_offset_interval: int = changeable(10_000, 100)

    # Hours for which files are kept.
    file_reserved_time: int = changeable(72, 0)
    # Hours of the day (local time) in which expired files are deleted, separated by semicolons.
    delete_when: Hours = Hours("04")
    # Most commit log files deleted in one round.
    delete_file_batch_max: int = changeable(10, 1)
    # Milliseconds between two deletions of a round.
    delete_commit_log_files_interval: int = changeable(100, 0)
    # Milliseconds between two rounds.
    clean_resource_interval: int = changeable(10_000, 100)
    # Disk usage in percent above which expired files are deleted at any hour; limited to 10 to 95.
    disk_max_used_space_ratio: int = changeable(75)
    # Disk usage in percent above which unexpired files are deleted, too; limited to 30 to 85.
    disk_space_clean_forcibly_ratio: int = changeable(85)
    # Disk usage in percent above which messages are refused; limited to 35 to 90.
    disk_space_warning_level_ratio: int = changeable(90)
    # Whether unexpired files may be deleted at all.
    clean_file_forcibly_enable: bool = changeable(True)

    # Accept messages with an arbitrary delivery time.
    timer_wheel_enable: bool = True
    # Milliseconds per slot of the timer wheel: 100, 200, 500 or 1000; any other value is rounded down to one of them.
    timer_precision_ms: int = 1000
    # Slots after which a message is put into the wheel again on its way to its delivery time.
    timer_roll_window_slot: int = 3600 * 24 * 2
    # Longest delay in seconds.
    timer_max_delay_sec: int = 3600 * 24 * 3
    # When more messages are due within one slot, further ones are refused.
    timer_congest_num_each_slot: int = 2**31 - 1
    # Milliseconds between two flushes of the timer.
    timer_flush_interval_ms: int = 1000
    # Stop putting messages into the wheel.
    timer_stop_enqueue: bool = False
    # Stop delivering timer messages.
    timer_stop_dequeue: bool = False
    # Whether a recall names the topic of the recalled message, as in 5.3. In 5.5 it does not by default, so that a
    # handle of one topic can recall a message of another.
    append_topic_for_timer_delete_key: bool = True
    # Size of a timer log file in bytes.
    mapped_file_size_timer_log: int = 100 * 1024 * 1024

    # Most open files; others are closed and reopened on demand. With the key index and all else that a process has
    # open it stays below 4,000. Not in RocketMQ.
    open_files_max: int = 3900

    @property
    def is_slave(self) -> bool:
        return self.broker_role is BrokerRole.SLAVE

    @property
    def commit_log_directory(self) -> Path:
        return self.store_path_commit_log or self.store_path_root_dir / "commitlog"
