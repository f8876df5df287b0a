"""Java's transaction producers on our broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kerolox.broker.tables.system_topics import HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from kerolox.message.message import Message
from kerolox.message.records.record import decode
from kerolox.store.store import Store
from kerolox.testing import Cluster
from tests.apache import VERSIONS
from tests.apache.processes import run_java
from tests.apache.requirements import require_java

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(900)]

TOPIC = "transacted"
FAST_CHECKS = {"transactionTimeOut": "1000", "transactionCheckInterval": "300", "transactionOpBatchInterval": "100"}


def messages_of(store: Store, topic: str) -> list[Message]:
    return [
        decode(record)
        for (of_topic, queue_id), queue in store.queues.items()
        for offset in range(queue.min_offset, queue.max_offset)
        if of_topic == topic
        for record in store.reader.get(topic, queue_id, offset, count_max=1).records
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_transactions_committed_by_a_java_producer_are_consumed(version: str, tmp_path: Path) -> None:
    require_java()
    async with Cluster(tmp_path, settings=FAST_CHECKS) as cluster:
        broker = cluster.brokers[0]
        sent = await asyncio.to_thread(run_java, version, "Transact.java", cluster.namesrv_addr, TOPIC)
        assert "done\n" in sent.stdout, sent
        lines = sent.stdout.splitlines()
        keys = {
            body: line.split()[-2] for line in lines for body in ("kept", "asked and kept") if line.startswith(body)
        }
        assert f"asked about asked and kept of {TOPIC} {keys['asked and kept']}" in lines

        found = messages_of(broker.store, TOPIC)
        assert sorted(message.body for message in found) == [b"asked and kept", b"kept"]
        assert {message.body.decode(): message.get("__transactionId__") for message in found} == keys
        consumed = await asyncio.to_thread(
            run_java, version, "Consume.java", cluster.namesrv_addr, TOPIC, "reader", "2", "60"
        )
        assert "consumed 2\n" in consumed.stdout, consumed

        await broker.transactions.checker.check()
        assert (
            broker.offsets.get(TRANSACTION_GROUP, HALF_TOPIC, 0) == broker.store.reader.max_offset(HALF_TOPIC, 0) >= 6
        )
        assert broker.offsets.get(TRANSACTION_GROUP, OP_TOPIC, 0) == broker.store.reader.max_offset(OP_TOPIC, 0) >= 1
