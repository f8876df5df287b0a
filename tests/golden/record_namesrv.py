"""Records what Java's NameServer is asked and answers: python -m tests.golden.record_namesrv [version ...]"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.apache.maven import classpath
from tests.apache.processes import java_command, running
from tests.apache.servers import write_properties
from tests.golden.namesrv_cases import CASES, Case, register, unregister
from tests.golden.recordings import HERE, VERSIONS, Direction, Recording, save

# All of these end up in recorded bytes, so they are the same each time.
HOME = Path("/tmp/kerolox-golden")
PORT = 19876
SLAVE_PORT = 19911
MASTER_PORT = 19921

TIMEOUT_SECONDS = 3.0
# The NameServer of 5.x answers UNREGISTER_BROKER first and works on it afterwards.
UNREGISTER_SECONDS = 0.3
SERIALIZATIONS = {"json": "JSON", "binary": "ROCKETMQ"}


def main(versions: Sequence[str]) -> None:
    for version in versions or VERSIONS:
        recordings = record(version)
        save(version, recordings)
        print(f"{version}: {len(recordings)} frames")


def record(version: str) -> list[Recording]:
    """All cases in both serializations, each against a NameServer of its own; then what it tells brokers."""
    recordings: list[Recording] = []
    for label, serialize in SERIALIZATIONS.items():
        cases = [case for case in CASES if version >= case.since]
        with name_server(version, {"orderMessageEnable": "true"}) as server:
            for case, request in zip(cases, encoded(version, cases, serialize), strict=True):
                recordings += asked(server, f"{label}/{case.name}", case.code, request)
            keep_files(version)
    return recordings + (notified(version) if version >= "5" else [])


def notified(version: str) -> list[Recording]:
    """A slave is there; its master comes, and the slave hears of it; the master goes, and it hears again."""
    host = "127.0.0.1"
    cases = [
        register("slave-came", host=host, port=SLAVE_PORT, broker_id=1, enableActingMaster=True),
        register("master-came", host=host, port=MASTER_PORT, enableActingMaster=True),
        unregister("master-went", "broker-a", host, port=MASTER_PORT),
    ]
    slave_came, master_came, master_went = encoded(version, cases, "JSON")
    with (
        name_server(version, {"notifyMinBrokerIdChanged": "true"}) as server,
        socket.create_server((host, SLAVE_PORT)) as slave,
    ):
        slave.settimeout(TIMEOUT_SECONDS)
        recordings = asked(server, "notify/slave-came", 103, slave_came)
        recordings += asked(server, "notify/master-came", 103, master_came)
        with slave.accept()[0] as connection:
            recordings.append(Recording("notify/master-came", Direction.NOTIFY, 905, received(connection)))
            recordings += asked(server, "notify/master-went", 104, master_went)
            recordings.append(Recording("notify/master-went", Direction.NOTIFY, 905, received(connection)))
    return recordings


def asked(server: socket.socket, name: str, code: int, request: bytes) -> list[Recording]:
    """The request and its answer; the request alone where Java never answers."""
    server.sendall(request)
    recordings = [Recording(name, Direction.REQUEST, code, request)]
    try:
        recordings.append(Recording(name, Direction.RESPONSE, code, received(server)))
    except TimeoutError:
        print(f"{name}: no answer within {TIMEOUT_SECONDS} s")
    if code == 104:
        time.sleep(UNREGISTER_SECONDS)
    return recordings


def received(connection: socket.socket) -> bytes:
    connection.settimeout(TIMEOUT_SECONDS)
    prefix = _exactly(connection, 4)
    return prefix + _exactly(connection, int.from_bytes(prefix, "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError(f"closed after {len(received)} of {size} bytes")
        received += part
    return received


def encoded(version: str, cases: Sequence[Case], serialize: str) -> list[bytes]:
    """The frames Java makes of these cases; the opaque counts from 1."""
    lines = [json.dumps(case.described(opaque, serialize)) for opaque, case in enumerate(cases, 1)]
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", f"-Duser.home={HOME}"]
    finished = subprocess.run(
        [*command, "-cp", classpath(version), str(HERE / "java" / "Frames.java")],
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    # Loggers print there as well.
    printed = (line.split() for line in finished.stdout.splitlines() if line.startswith("frame "))
    return [bytes.fromhex(digits) for _, digits in printed]


@contextlib.contextmanager
def name_server(version: str, settings: Mapping[str, str]) -> Iterator[socket.socket]:
    """A connection to a NameServer that starts without any state."""
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "conf").mkdir(parents=True)
    (HOME / "conf" / "logback_namesrv.xml").write_text("<configuration/>")
    base = {"listenPort": str(PORT), "bindAddress": "127.0.0.1"}
    properties = write_properties(HOME / "namesrv.properties", {**base, **settings})
    command = java_command(version, HOME, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(properties))
    with running(command, HOME) as process:
        process.wait_for("boot success")
        with socket.create_connection(("127.0.0.1", PORT)) as connection:
            yield connection
    shutil.rmtree(HOME, ignore_errors=True)


def keep_files(version: str) -> None:
    """Keep what the NameServer wrote to its own disk as well."""
    shutil.copy(HOME / "namesrv" / "kvConfig.json", HERE / f"namesrv-{version}-kvConfig.json")
    shutil.copy(HOME / "namesrv.properties", HERE / f"namesrv-{version}.properties")


if __name__ == "__main__":
    main(sys.argv[1:])
