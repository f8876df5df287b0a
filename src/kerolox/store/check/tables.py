"""Checks the small files of a store: the checkpoint, and the tables under `config`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kerolox.runtime.files import Disk
from kerolox.store import tables
from kerolox.store.check.report import Report
from kerolox.store.errors import StoreDamaged
from kerolox.store.queue.queue_types import batch_topics, mistyped
from kerolox.store.recovery.checkpoint import FILE_SIZE, Checkpoint
from kerolox.store.tables import JsonTable

_TABLES = (
    tables.TOPICS,
    tables.CONSUMER_OFFSET,
    tables.SUBSCRIPTION_GROUP,
    tables.CONSUMER_FILTER,
    tables.DELAY_OFFSET,
)


def topic_attributes(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the attributes of each topic in topics.json; malformed entries are skipped."""
    table = content.get("topicConfigTable")
    for topic, config in table.items() if isinstance(table, dict) else ():
        attributes = config.get("attributes") if isinstance(config, dict) else None
        if isinstance(attributes, dict):
            yield topic, attributes


class CheckpointCheck:
    """Reads the checkpoint before the log, which may grow meanwhile, and compares them afterwards."""

    def __init__(self, disk: Disk, path: Path, report: Report) -> None:
        self._disk = disk
        self._path = path
        self._report = report
        self._checkpoint = Checkpoint(disk, path)
        self._size: int | None = None

    def load(self) -> None:
        content = self._disk.read(self._path)
        if content is not None:
            self._size = len(content)
            self._checkpoint.load()

    def compare(self, index_end_timestamp: int) -> None:
        """Compare the checkpoint with log and index."""
        report, checkpoint = self._report, self._checkpoint
        if self._size is None:
            report.notes.append("checkpoint: missing")
            return
        if self._size != FILE_SIZE:
            report.complain_if_clean(f"checkpoint: has {self._size} bytes, expected {FILE_SIZE}")
        times = {
            "log": checkpoint.log_timestamp,
            "queues": checkpoint.queues_timestamp,
            "index": checkpoint.index_timestamp,
        }
        for name, timestamp in times.items():
            if timestamp < 0 or timestamp > report.last_timestamp > 0:
                # Durable data is missing.
                report.complain_if_clean(
                    f"checkpoint: {name} durable up to {timestamp}, the last record is of {report.last_timestamp}"
                )
        if report.index_files and checkpoint.index_timestamp > index_end_timestamp:
            report.notes.append(
                f"checkpoint: index durable up to {checkpoint.index_timestamp}, it ends at {index_end_timestamp}"
            )
        offsets = {"confirmed": checkpoint.confirmed_offset, "entered in queues": checkpoint.queues_physical_offset}
        for name, offset in offsets.items():
            if offset > report.end_offset:
                report.complain_if_clean(f"checkpoint: {name} up to {offset}, the log ends at {report.end_offset}")


class TableCheck:
    """Reads the tables leniently, whichever version wrote them."""

    def __init__(self, disk: Disk, directory: Path, report: Report) -> None:
        self._disk = disk
        self._directory = directory
        self._report = report
        self._contents: dict[str, dict[str, Any]] = {}

    def load(self) -> None:
        for name in _TABLES:
            content = self._read(name)
            if content is not None:
                self._contents[name] = content
                self._report.tables += 1

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self._directory / name
        try:
            return JsonTable[dict[str, Any]](self._disk, path, dict[str, Any]).load()
        except (StoreDamaged, OSError) as error:
            self._report.complain(f"config: {error}")
            return None

    @property
    def topics(self) -> set[str] | None:
        """The names of the topics; None without a readable topics.json."""
        table = self._contents.get(tables.TOPICS, {}).get("topicConfigTable")
        return set(table) if isinstance(table, dict) else None

    def check_queue_types(self, root: Path) -> None:
        """Compare the `queue.type` of topics with their queues."""
        simple, report = set(self._disk.names(root / "consumequeue")), self._report
        for topic in mistyped(self._disk, root, topic_attributes(self._contents.get(tables.TOPICS, {}))):
            if topic in simple:
                report.complain(
                    f"config: topic {topic} has queue.type=BatchCQ, but its queues are SimpleCQ, and RocketMQ 5.x does "
                    "not start on such a store; `kerolox store check --repair` corrects it"
                )
            else:
                report.notes.append(f"config: topic {topic} has queue.type=BatchCQ, which is not supported here")
        for topic in sorted(simple.intersection(batch_topics(self._disk, root))):
            report.complain(
                f"topic {topic} has queues of type SimpleCQ and of type BatchCQ, and RocketMQ 5.x does not start on "
                "such a store"
            )

    def compare_offsets(self, max_offsets: Mapping[tuple[str, int], int]) -> None:
        """Note consumer offsets beyond the end of their queue, as after messages or a topic were lost."""
        table = self._contents.get(tables.CONSUMER_OFFSET, {}).get("offsetTable")
        for key, offsets in table.items() if isinstance(table, dict) else ():
            topic, _, group = key.partition("@")
            for queue_id, offset in offsets.items() if isinstance(offsets, dict) else ():
                if not (str(queue_id).isdigit() and isinstance(offset, int)):
                    self._report.complain(f"config: {key} has offset {offset!r} in queue {queue_id!r}")
                elif offset > max_offsets.get((topic, int(queue_id)), 0):
                    end = max_offsets.get((topic, int(queue_id)), 0)
                    self._report.notes.append(
                        f"config: group {group} is at {offset} of queue {topic}/{queue_id}, which ends at {end}"
                    )
