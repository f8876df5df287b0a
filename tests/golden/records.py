"""Records that Apache RocketMQ wrote into its commit log, kept as text; README.md tells how they were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.golden.recordings import HERE, VERSIONS

__all__ = ["VERSIONS", "GoldenRecord", "load", "save"]


@dataclass(frozen=True, slots=True)
class GoldenRecord:
    """One record, whole. `case` says what was sent, and to which broker; many a message leaves several records."""

    case: str
    record: bytes


def load(version: str) -> list[GoldenRecord]:
    """The records of one version in the order in which they lay in the log."""
    lines = [json.loads(line) for line in path(version).read_text("ascii").splitlines()]
    return [GoldenRecord(line["case"], line["record"].encode("latin-1")) for line in lines]


def save(version: str, records: list[GoldenRecord]) -> None:
    path(version).write_text("".join(f"{_written(record)}\n" for record in records), "ascii")


def path(version: str) -> Path:
    return HERE / f"records-{version}.jsonl"


def _written(record: GoldenRecord) -> str:
    fields = {"case": record.case, "record": record.record.decode("latin-1")}
    return json.dumps(fields, separators=(",", ":"))
