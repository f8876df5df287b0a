"""Looks at the small files of a store: the checkpoint, and the tables under `config`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kerolox.runtime.files import Disk
from kerolox.store import tables
from kerolox.store.checking.report import Report
from kerolox.store.checkpoint import FILE_SIZE, Checkpoint
from kerolox.store.errors import StoreDamaged
from kerolox.store.tables import JsonTable

_TABLES = (
    tables.TOPICS,
    tables.CONSUMER_OFFSET,
    tables.SUBSCRIPTION_GROUP,
    tables.CONSUMER_FILTER,
    tables.DELAY_OFFSET,
)


class CheckpointCheck:
    """Read before the log is, which may grow meanwhile, and compared with it afterwards."""

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
        """Compares it with what log and index were found to hold."""
        report, checkpoint = self._report, self._checkpoint
        if self._size is None:
            report.notes.append("checkpoint: there is none")
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
                # What was durable once is no longer there.
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
    """The tables, read leniently: as much as is needed of each, whoever wrote it."""

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
        """The names of the topics, if there is a table of them."""
        table = self._contents.get(tables.TOPICS, {}).get("topicConfigTable")
        return set(table) if isinstance(table, dict) else None

    def compare_offsets(self, max_offsets: Mapping[tuple[str, int], int]) -> None:
        """Notes consumers that are further than their queue, as they are after messages were lost or a topic was."""
        table = self._contents.get(tables.CONSUMER_OFFSET, {}).get("offsetTable")
        for place, offsets in table.items() if isinstance(table, dict) else ():
            topic, _, group = place.partition("@")
            for queue_id, offset in offsets.items() if isinstance(offsets, dict) else ():
                if not (str(queue_id).isdigit() and isinstance(offset, int)):
                    self._report.complain(f"config: {place} has offset {offset!r} in queue {queue_id!r}")
                elif offset > max_offsets.get((topic, int(queue_id)), 0):
                    end = max_offsets.get((topic, int(queue_id)), 0)
                    self._report.notes.append(
                        f"config: group {group} is at {offset} of queue {topic}/{queue_id}, which ends at {end}"
                    )
