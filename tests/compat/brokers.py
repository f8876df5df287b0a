"""Our broker as a process, started by its command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.apache.processes import Process, running, temporary_home
from tests.apache.servers import broker_port, write_properties

_READY_SECONDS = 30.0


@contextlib.contextmanager
def kerolox_broker(
    namesrv: str,
    *,
    name: str = "broker-a",
    cluster: str = "DefaultCluster",
    port: int | None = None,
    store: Path | None = None,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Process]:
    """A broker on loopback that has registered with `namesrv`, killed at the end.

    To restart the same broker, pass its `port` and `store`.
    """
    port = port or broker_port()
    command = Path(sys.executable).parent / "kerolox"
    with temporary_home() as home:
        settings = {
            "brokerName": name,
            "brokerClusterName": cluster,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": str(port),
            "storePathRootDir": str(store or home / "store"),
            "mappedFileSizeCommitLog": str(16 << 20),
            "mappedFileSizeConsumeQueue": "60000",
            "maxHashSlotNum": "10000",
            "maxIndexNum": "40000",
            # On two busy cores, a send may wait longer than the default of 200 ms and would be refused.
            "waitTimeMillsInSendQueue": "3000",
            **({"namesrvAddr": namesrv} if namesrv else {}),
            **(properties or {}),
        }
        file = write_properties(home / "broker.conf", settings)
        with running([str(command), "broker", "-c", str(file)], home, f"127.0.0.1:{port}") as process:
            process.wait_for("boot success", _READY_SECONDS)
            yield process
