"""The pytest plugin: `kerolox_cluster` is a running cluster, for tests with or without an event loop of their own."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest


@pytest.fixture
def kerolox_cluster(tmp_path: Path) -> "Iterator[RunningCluster]":
    """A NameServer and a broker on free ports; clients connect to `kerolox_cluster.namesrv_addr`.

    If a service of a server fails during the test, the servers close, and the end of the fixture raises ServiceFailed.
    """
    with RunningCluster(tmp_path / "kerolox") as cluster:
        yield cluster


class RunningCluster:
    """A cluster on its own event loop in a background thread, so that tests without a loop can use it."""

    def __init__(self, directory: Path, *, brokers: int = 1) -> None:
        # Imported late: pytest loads this plugin in every project that has the package installed.
        from kerolox.runtime.event_loop import new_loop

        self._directory = directory
        self._count = brokers
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kerolox cluster", daemon=True)
        self.namesrv_addr = ""
        self.broker_addr = ""

    def __enter__(self) -> "RunningCluster":
        # Imported late: pytest loads this plugin in every project that has the package installed.
        from kerolox.testing.cluster import Cluster

        self._thread.start()
        self._cluster = Cluster(self._directory, brokers=self._count)
        asyncio.run_coroutine_threadsafe(self._cluster.open(), self._loop).result(30)
        self.namesrv_addr = self._cluster.namesrv_addr
        self.broker_addr = self._cluster.brokers[0].address
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._cluster.stop(), self._loop).result(30)
            self._cluster.settle(error)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
