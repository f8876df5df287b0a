"""NameServers and brokers as processes, of which some stop, die or start anew under load: nobody who sends need know.

Every message that was acknowledged is read back afterwards. What comes twice is counted, and shown at the end.
"""

import os
from pathlib import Path

from tests.client.failover import BROKERS, NAME_SERVERS, Load, Outcome, outcome, servers
from tests.client.producer.producing import producing
from tests.client.shown import Shown
from tests.crash.proofs import noted

# What is promised for a broker that stops, with default settings.
GAP_SECONDS_MAX = 3.0
# How often each of them is stopped, killed or started anew. `make chaos` asks for more.
ROUNDS = int(os.environ.get("KEROLOX_FAILOVER_ROUNDS", "1"))


async def test_a_broker_that_stops_and_goes_on_is_not_noticed_by_those_who_send(tmp_path: Path, shown: Shown) -> None:
    async with servers(tmp_path) as running, producing(running) as producer:
        async with Load(producer) as load:
            for _ in range(ROUNDS):
                await load.until_sent_to(*BROKERS)
                running["broker-a"].stop()
                await load.until_sent_to("broker-b", count=3000)
                running["broker-a"].resume()
            await load.until_sent_to(*BROKERS)
        result = await outcome(load, running)

    _show(shown, "SIGSTOP of one of two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


async def test_a_broker_that_is_killed_is_not_noticed_by_those_who_send(tmp_path: Path, shown: Shown) -> None:
    async with servers(tmp_path) as running, producing(running) as producer:
        async with Load(producer) as load:
            for _ in range(ROUNDS):
                await load.until_sent_to(*BROKERS)
                running["broker-a"].kill()
                await load.until_sent_to("broker-b", count=3000)
                # With default settings those who send come to know of it within half a minute, as in Java.
                await running.start("broker-a")
        result = await outcome(load, running)

    _show(shown, "SIGKILL of one of two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


async def test_servers_that_start_anew_one_after_the_other_are_not_noticed(tmp_path: Path, shown: Shown) -> None:
    """The next is touched when the last is back; a NameServer is back when brokers have registered with it."""
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

    _show(shown, "rolling restart of two NameServers and two brokers", result)
    assert result.longest_gap_seconds < GAP_SECONDS_MAX


def _show(shown: Shown, what: str, result: Outcome) -> None:
    shown.append(f"{ROUNDS} x {what}: {result}")
    noted(what, runs=ROUNDS, promised=result.acknowledged, duplicates=result.duplicates)
