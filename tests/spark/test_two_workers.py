"""Source and sink on a standalone cluster of two workers, with our brokers and Apache's."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kerolox.admin.sync import AdminClient
from tests.apache import VERSIONS, servers
from tests.apache.requirements import require_java
from tests.compat.waiting import until_listed
from tests.spark.clusters import Brokers
from tests.spark.conftest import environment
from tests.spark.standalone import standalone_cluster

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(1800)]

COUNT = 6000
OURS = "Kerolox"
_DRIVER_SECONDS = 1200.0


@pytest.fixture(scope="module")
def master() -> Iterator[str]:
    with standalone_cluster(workers=2) as address:
        yield address


@pytest.fixture(params=[OURS, *VERSIONS])
def namesrv_addr(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == OURS:
            address = stack.enter_context(Brokers(tmp_path / "cluster", "broker-a", "broker-b")).namesrv_addr
        else:
            require_java()
            address = stack.enter_context(servers.name_server(request.param)).address
            stack.enter_context(servers.broker(request.param, address))
            asyncio.run(until_listed(address, "broker-a"))
        admin = stack.enter_context(AdminClient(namesrv_addr=address, timeout_seconds=30))
        for topic in ("numbers", "copies"):
            admin.topics.create(topic, read_queues=4, write_queues=4)
        yield address


def test_a_topic_is_written_read_and_copied_as_a_stream_by_two_workers(
    master: str, namesrv_addr: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.spark.round_trip", master, namesrv_addr, "numbers", "copies", str(COUNT)]
    ran = subprocess.run(
        [*command, str(tmp_path / "checkpoint")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_DRIVER_SECONDS,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr[-5000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {"rows": COUNT, "distinct": COUNT, "executors": 2, "batches": found["batches"]}
    assert found["batches"] >= 3
    with AdminClient(namesrv_addr=namesrv_addr, timeout_seconds=30) as admin:
        assert _stored(admin, "copies") == COUNT


def _stored(admin: AdminClient, topic: str) -> int:
    """Return how many messages the queues of a topic hold."""
    return sum(queue.max_offset - queue.min_offset for queue in admin.topics.status(topic).values())
