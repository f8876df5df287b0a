"""The pytest plugin: `kerolox_cluster` is a running cluster, for tests with or without an event loop of their own."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def kerolox_cluster(tmp_path: Path) -> "Iterator[RunningCluster]":
    """A NameServer and a broker on free ports; `kerolox_cluster.namesrv_addr` is what clients need."""
    with RunningCluster(tmp_path / "kerolox") as cluster:
        yield cluster


class RunningCluster:
    """A cluster on an event loop and a thread of its own, so that any test can use it."""

    def __init__(self, directory: Path, *, brokers: int = 1) -> None:
        # Not before it is used: pytest loads this plugin for everyone who has the package.
        from kerolox.runtime.server_loop import new_loop

        self._directory = directory
        self._count = brokers
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kerolox cluster", daemon=True)
        self.namesrv_addr = ""
        self.broker_addr = ""

    def __enter__(self) -> "RunningCluster":
        # Not before it is used: pytest loads this plugin for everyone who has the package.
        from kerolox.testing.cluster import Cluster

        self._thread.start()
        self._cluster = Cluster(self._directory, brokers=self._count)
        asyncio.run_coroutine_threadsafe(self._cluster.__aenter__(), self._loop).result(30)
        self.namesrv_addr = self._cluster.namesrv_addr
        self.broker_addr = self._cluster.brokers[0].address
        return self

    def __exit__(self, *error: object) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._cluster.__aexit__(), self._loop).result(30)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
