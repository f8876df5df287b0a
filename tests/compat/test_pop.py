"""Java's push consumer pops from our broker; Java encodes the records of POP as in our recordings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kerolox.store.timer.divert import TIMER_TOPIC
from kerolox.testing import Cluster
from tests.apache.admin import mqadmin
from tests.apache.processes import run_java
from tests.apache.requirements import require_java
from tests.golden import pop as golden

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "5.5.0"
COUNT = 40


def test_java_encodes_pop_records_as_recorded() -> None:
    require_java()
    assert golden.parse(run_java(VERSION, "PopBodies.java").stdout) == golden.load()


async def test_javas_push_consumer_pops_acks_and_gets_failed_messages_again(tmp_path: Path) -> None:
    require_java()
    async with Cluster(tmp_path) as cluster:
        broker = cluster.brokers[0]
        sent = await asyncio.to_thread(run_java, VERSION, "Produce.java", cluster.namesrv_addr, "orders", str(COUNT))
        assert sent.code == 0, sent.stderr
        set_mode = ("setConsumeMode", "-b", broker.address, "-t", "orders", "-g", "readers", "-m", "POP", "-q", "0")
        mode_set = await asyncio.to_thread(mqadmin, VERSION, *set_mode, namesrv=cluster.namesrv_addr)
        assert "success" in mode_set.stdout, mode_set

        arguments = (cluster.namesrv_addr, "orders", "readers", str(COUNT), "90", "7")
        consumed = await asyncio.to_thread(run_java, VERSION, "PopConsume.java", *arguments)

        failing = sum(1 for number in range(COUNT) if str(number).endswith("7"))
        last = consumed.stdout.splitlines()[-1]
        assert last == f"consumed {COUNT} retried {failing} doubled 0", consumed
        assert broker.store.queues.get(TIMER_TOPIC, 0) is not None
        retries = broker.store.queues.get("%RETRY%readers_orders", 0)
        assert retries is not None
        assert retries.max_offset == failing
        assert {queue_id: broker.offsets.get("readers", "orders", queue_id) for queue_id in range(4)} == {
            queue_id: broker.store.reader.max_offset("orders", queue_id) for queue_id in range(4)
        }
