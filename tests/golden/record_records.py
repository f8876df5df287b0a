"""Records what Java's broker writes into its commit log: python -m tests.golden.record_records [version ...]

The log is cut into records by their sizes alone: what they mean is for the tests to find out.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.apache.processes import ProcessError, java_command, run, temporary_home
from tests.apache.servers import broker, name_server
from tests.golden.recordings import HERE
from tests.golden.records import VERSIONS, GoldenRecord, path, save

BLANK_MAGIC = 0xCBD43194
TIMEOUT_SECONDS = 180.0
# The client of 4.9.8 talks to the servers of 4.9.7.
CLIENTS = {"4.9.7": "4.9.8", "5.5.0": "5.5.0"}

_CASE = re.compile(rb"case\x01([^\x02]+)")


@dataclass(frozen=True, slots=True)
class Stage:
    """A broker of its own, and what is sent to it."""

    name: str
    kinds: tuple[str, ...]
    properties: Mapping[str, str]
    since: str = "4"
    ipv6: bool = False


ALL = (
    "plain",
    "keys",
    "properties",
    "bytes",
    "batch",
    "delay",
    "zlib",
    "lz4",
    "zstd",
    "transaction",
    "retry",
    "encoded",
)
FEW = ("plain", "keys", "batch", "delay")
# Quick to ask about transactions that were left open, and not so quick that 5.x has not yet noted the others.
ASKING = {"transactionCheckInterval": "3000", "transactionTimeOut": "8000"}

STAGES = (
    Stage("ipv4", (*ALL, "names"), ASKING),
    Stage("ipv6", FEW, {"brokerIP1": "::1", "brokerIP2": "::1", "bindAddress": "::"}, ipv6=True),
    Stage("v5", ("timer",), {"timerPrecisionMs": "100"}, since="5"),
    Stage("crc", FEW, {"enabledAppendPropCRC": "true"}, since="5"),
)


def main(versions: Sequence[str]) -> None:
    for version in versions or VERSIONS:
        records = [record for stage in STAGES if version >= stage.since for record in recorded(version, stage)]
        if version >= "5":
            records += made("store", java(CLIENTS[version], "LongTopic.java"))
        save(version, records)
        print(f"{version}: {len(records)} records, {path(version).stat().st_size} bytes")


def recorded(version: str, stage: Stage) -> list[GoldenRecord]:
    """All records of the broker's log, after everything was sent to it."""
    client = CLIENTS[version]
    # This one has the last word over what the command line says of the stack.
    os.environ["_JAVA_OPTIONS"] = f"-Djava.net.preferIPv4Stack={str(not stage.ipv6).lower()}"
    with name_server(client) as naming, broker(client, naming.address, properties=stage.properties) as serving:
        printed = java(client, "Records.java", naming.address, *stage.kinds)
        log = serving.home / "store" / "commitlog" / f"{0:020d}"
        return cut(stage.name, log) + made(stage.name, printed)


def java(version: str, source: str, *arguments: str) -> str:
    """Return what one of our programs printed."""
    with temporary_home() as home:
        command = java_command(version, home, source.removesuffix(".java"), *arguments)
        command[command.index(source.removesuffix(".java"))] = str(HERE / "java" / source)
        completed = run(command, home, TIMEOUT_SECONDS)
    print(completed.stdout)
    if completed.code != 0:
        raise ProcessError(f"{source} ended with {completed.code}: {completed.stderr[-5000:]}")
    return completed.stdout


def made(stage: str, printed: str) -> list[GoldenRecord]:
    """Records that Java's encoders write without a broker."""
    found = re.findall(r"^record (\S+) (\S+)$", printed, re.MULTILINE)
    return [GoldenRecord(f"{stage}/{case}", bytes.fromhex(digits)) for case, digits in found]


def cut(stage: str, log: Path) -> list[GoldenRecord]:
    records: list[GoldenRecord] = []
    data = log.read_bytes()
    at = 0
    while True:
        size, magic = struct.unpack_from(">II", data, at)
        if size == 0 or magic == BLANK_MAGIC:
            return records
        record = data[at : at + size]
        case = _CASE.search(record)
        records.append(GoldenRecord(f"{stage}/{case[1].decode() if case else 'none'}", record))
        at += size


if __name__ == "__main__":
    main(sys.argv[1:])
