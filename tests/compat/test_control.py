"""Apache's mqadmin reads the statistics of our broker, and resets the offsets of a Java consumer."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kerolox.broker import Broker
from kerolox.codes import RequestCode
from kerolox.testing import Cluster
from tests.apache import VERSIONS
from tests.apache.admin import Admin, admin
from tests.apache.processes import java_command, run_java, running, temporary_home
from tests.compat.waiting import eventually

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.parametrize("version", VERSIONS)]

_SECONDS = 60.0


async def with_consumer(directory: Path, version: str, script: Callable[[Broker, Callable[..., str]], None]) -> None:
    """Run `script` while a Java consumer is running that has consumed twenty messages."""
    async with Cluster(directory) as cluster:
        namesrv, broker = cluster.namesrv_addr, cluster.brokers[0]

        def ask(tool: Admin, *arguments: str) -> str:
            done = tool.run(*arguments, namesrv=namesrv)
            assert not done.stderr, done.stderr
            return done.stdout

        def work() -> None:
            assert "sent 20" in run_java(version, "Produce.java", namesrv, "orders", "20").stdout
            with temporary_home() as home, admin(version) as tool:
                command = java_command(version, home, "Consume.java", namesrv, "orders", "group", "1000", "300")
                with running(command, home):
                    eventually(lambda: broker.statistics.gets >= 20, _SECONDS, "twenty messages")
                    script(broker, lambda *arguments: ask(tool, *arguments))

        await asyncio.to_thread(work)


async def test_apaches_tools_read_broker_statistics(tmp_path: Path, version: str) -> None:
    def script(broker: Broker, ask: Callable[..., str]) -> None:
        assert "putTps" in ask("brokerStatus", "-b", broker.address)
        assert broker.address in ask("clusterList")
        assert "20" in ask("clusterList", "-m").splitlines()[1].split()
        assert "CLUSTERING" in ask("consumerConnection", "-g", "group")
        # The 5.x tool reads the topic configuration first.
        if version == "4.9.8" or RequestCode.GET_TOPIC_CONFIG in broker.router.requests:
            assert "orders" in ask("consumerProgress", "-g", "group")
        client_id = broker.clients.consumers["group"].client_ids[0]
        assert "#Consumer RT&TPS#" in ask("consumerStatus", "-g", "group", "-i", client_id)
        assert client_id in ask("producer", "-b", broker.address)
        assert "Diff Total" in ask("brokerConsumeStats", "-b", broker.address)
        assert "max: 5, min: 0" in ask("queryCq", "-t", "orders", "-q", "0", "-i", "0", "-b", broker.address)
        for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
            assert "success" in ask(command, "-b", broker.address)

    await with_consumer(tmp_path, version, script)


async def test_a_java_consumer_starts_over_when_its_group_is_reset(tmp_path: Path, version: str) -> None:
    def script(broker: Broker, ask: Callable[..., str]) -> None:
        assert "broker-a" in ask("resetOffsetByTime", "-g", "group", "-t", "orders", "-s", "0")
        eventually(lambda: broker.statistics.gets >= 40, _SECONDS, "twenty messages again")

    await with_consumer(tmp_path, version, script)
