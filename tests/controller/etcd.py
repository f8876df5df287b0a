"""A real etcd for tests."""

import asyncio
import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kerolox.controller.storage.http import HttpConnection, HttpError
from tests.apache.requirements import unmet

PATIENCE_SECONDS = 30


def require_etcd() -> str:
    """Return the path of etcd; skip the test on a machine without it, fail it where KEROLOX_REQUIRE_ALL is set."""
    path = shutil.which("etcd")
    if path is None:
        unmet("needs etcd: no etcd on the PATH (Debian package etcd-server)")
    return path


@contextlib.contextmanager
def running_etcd(directory: Path) -> Iterator[str]:
    """Run one etcd on free ports until the block ends; yield its URL."""
    path = require_etcd()
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    with (directory / "etcd.log").open("wb") as log:
        process = subprocess.Popen(
            [
                path,
                *("--name", "n0", "--data-dir", str(directory / "etcd")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"n0={peer}", "--logger", "zap", "--log-level", "error"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        asyncio.run(_wait_until_ready(client))
        yield client
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory / "etcd", ignore_errors=True)


async def _wait_until_ready(url: str) -> None:
    connection = HttpConnection(url)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(HttpError):
                if (await connection.post("/v3/kv/range", b'{"key":"YQ=="}')).status == 200:
                    await connection.close()
                    return
            await asyncio.sleep(0.05)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [it.getsockname()[1] for it in sockets]
    finally:
        for it in sockets:
            it.close()
