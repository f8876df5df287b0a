"""Records the JSON tables that Apache's broker keeps under `config/`: see README.md."""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.apache import SERVER_VERSIONS, VERSIONS, servers
from tests.apache.processes import run_java

NAMES = ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "consumerFilter.json", "delayOffset.json")


@dataclass(frozen=True, slots=True)
class Sent:
    unique_key: bytes
    physical_offset: int
    topic: str
    keys: tuple[bytes, ...]


def run_broker(version: str, target: Path, *, count: int, seconds: int) -> list[Sent]:
    """Send messages with keys to a broker, stop it as an operator would, and copy its store to `target`."""
    with servers.name_server(version) as name_server:
        properties = {"enablePropertyFilter": "true"}
        with servers.broker(version, name_server.address, properties=properties) as broker:
            arguments = (name_server.address, "Keyed", str(count), str(seconds * 1000))
            completed = run_java(version, "Keyed.java", *arguments)
            broker.terminate()
            shutil.copytree(broker.home / "store", target)
    lines = completed.stdout.splitlines()
    assert lines[-1:] == [f"sent {count}"], completed
    return [_sent(line) for line in lines if line.count("\t") == 3]


def _sent(line: str) -> Sent:
    unique_key, physical_offset, topic, keys = line.split("\t")
    return Sent(unique_key.encode(), int(physical_offset), topic, tuple(key.encode() for key in keys.split()))


def record(version: str) -> None:
    target = Path(__file__).parent / f"config-{SERVER_VERSIONS[version]}"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        run_broker(version, store, count=200, seconds=8)
        for name in NAMES:
            shutil.copyfile(store / "config" / name, target / name)


if __name__ == "__main__":
    for version in sys.argv[1:] or VERSIONS:
        record(version)
