"""Java's clients on our broker: a batch is sent, becomes dead letters after retries, and a request gets a reply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kerolox.message.records.record import decode_all
from kerolox.testing import Cluster
from tests.apache import VERSIONS
from tests.apache.processes import run_java

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "orders"


@pytest.mark.parametrize("version", VERSIONS)
async def test_batches_retries_and_replies_of_java_clients_work(tmp_path: Path, version: str) -> None:
    async with Cluster(tmp_path) as cluster:
        done = await asyncio.to_thread(
            run_java, version, "Retries.java", cluster.namesrv_addr, TOPIC, timeout_seconds=120
        )

        lines = done.stdout.splitlines()
        assert "batch SEND_OK 3" in lines, done
        for number in range(3):
            for times in range(2):
                assert f"refused {TOPIC} {times} body {number}" in lines, done
        assert "reply pong" in lines, done
        reader = cluster.brokers[0].store.reader
        dead = decode_all(b"".join(reader.get(f"%DLQ%refusing_{TOPIC}", 0, 0).records))
        assert sorted(message.body for message in dead) == [b"body 0", b"body 1", b"body 2"]
        assert {(message.reconsume_times, message.get("RETRY_TOPIC")) for message in dead} == {(2, TOPIC)}
