"""Frames that Apache RocketMQ wrote, kept as text; README.md tells how they were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

VERSIONS = ("4.9.7", "5.5.0")
HERE = Path(__file__).parent


class Direction(Enum):
    REQUEST = "request"
    RESPONSE = "response"
    # A request that the NameServer sends to a broker.
    NOTIFY = "notify"


@dataclass(frozen=True, slots=True)
class Recording:
    """One frame, whole: length prefix, header and body. `code` is the request's code, in responses too."""

    case: str
    direction: Direction
    code: int
    frame: bytes


def load(version: str) -> list[Recording]:
    """The recordings of one version in the order in which they crossed the wire."""
    return [_read(line) for line in path(version).read_text("ascii").splitlines()]


def save(version: str, recordings: list[Recording]) -> None:
    path(version).write_text("".join(f"{_written(recording)}\n" for recording in recordings), "ascii")


def path(version: str) -> Path:
    return HERE / f"namesrv-{version}.jsonl"


def _read(line: str) -> Recording:
    fields = json.loads(line)
    return Recording(fields["case"], Direction(fields["direction"]), fields["code"], fields["frame"].encode("latin-1"))


def _written(recording: Recording) -> str:
    # Latin-1 maps each byte to the character of the same number: exact, and most of a frame stays readable.
    fields = {
        "case": recording.case,
        "direction": recording.direction.value,
        "code": recording.code,
        "frame": recording.frame.decode("latin-1"),
    }
    return json.dumps(fields, separators=(",", ":"))
