"""Producers under load while NameServers and brokers are paused, killed or restarted: no send may fail.

Every acknowledged message is read afterwards. Duplicates are counted, and printed in the summary.
"""

import os
from pathlib import Path

from tests.client.failover import BROKERS, NAME_SERVERS, Load, Outcome, outcome, servers
from tests.client.producer.producing import producing
from tests.crash.proofs import record_proof

# The documented limit for a broker that stops, with default settings.
GAP_SECONDS_MAX = 3.0
# How often each server is paused, killed or restarted. `make chaos` sets a larger number.
ROUNDS = int(os.environ.get("KEROLOX_FAILOVER_ROUNDS", "1"))


async def test_producers_survive_a_paused_broker(tmp_path: Path, report_lines: list[str]) -> None:
    async with servers(tmp_path) as running, producing(running) as producer:
        async with Load(producer) as load:
            for _ in range(ROUNDS):
                await load.until_sent_to(*BROKERS)
                running["broker-a"].stop()
                await load.until_sent_to("broker-b", count=3000)
                running["broker-a"].resume()
            await load.until_sent_to(*BROKERS)
        result = await outcome(load, running)

    _show(report_lines, "SIGSTOP of one of two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


async def test_producers_survive_a_killed_broker(tmp_path: Path, report_lines: list[str]) -> None:
    async with servers(tmp_path) as running, producing(running) as producer:
        async with Load(producer) as load:
            for _ in range(ROUNDS):
                await load.until_sent_to(*BROKERS)
                running["broker-a"].kill()
                await load.until_sent_to("broker-b", count=3000)
                # With default settings producers use the broker again within half a minute, as in Java.
                await running.start("broker-a")
        result = await outcome(load, running)

    _show(report_lines, "SIGKILL of one of two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


async def test_producers_survive_a_rolling_restart(tmp_path: Path, report_lines: list[str]) -> None:
    """A server is restarted when the previous one is ready; a NameServer is when both brokers have registered."""
    async with servers(tmp_path) as running, producing(running) as producer:
        async with Load(producer) as load:
            await load.until_sent_to(*BROKERS)
            for _ in range(ROUNDS):
                for name in NAME_SERVERS:
                    await running.restart(name)
                    await running.until_known(name, *BROKERS)
                for name, other in zip(BROKERS, reversed(BROKERS), strict=True):
                    await running.restart(name)
                    await load.until_sent_to(other)
        result = await outcome(load, running)

    _show(report_lines, "rolling restart of two NameServers and two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


def _show(report_lines: list[str], what: str, result: Outcome) -> None:
    report_lines.append(f"{ROUNDS} x {what}: {result}")
    record_proof(what, runs=ROUNDS, promised=result.acknowledged, duplicates=result.duplicates)
