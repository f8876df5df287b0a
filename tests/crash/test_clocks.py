"""A broker whose clock jumps, and that is killed, delivers every timer message that it has acknowledged."""

import asyncio
import os
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path

from kerolox.errors import KeroloxError
from kerolox.remoting.client import Client
from kerolox.store.check.check import check
from kerolox.store.check.file_sizes import detect_settings
from tests.broker.brokers import sending
from tests.crash.kills import stored
from tests.crash.lives import ROOT, environment
from tests.crash.proofs import record_proof

LIVES = int(os.environ.get("KEROLOX_CLOCK_LIVES", "4"))

_MINUTE, _HOUR, _DAY, _YEARS = 60_000, 3_600_000, 86_400_000, 10 * 365 * 86_400_000
_AHEAD = (0, 0, _MINUTE, -_MINUTE, _HOUR, -_HOUR, _DAY, -_DAY, _YEARS, -_YEARS)
_DELAY_MILLIS_MAX = 3000
_STEPS = 4
_SENDS = 5
_START_SECONDS = 60.0
# Deadline for delivery after the clock is correct again, on a busy machine.
_DELIVERY_SECONDS = 60.0


async def test_a_broker_under_clock_jumps_and_kills_delivers_all_it_acknowledged(tmp_path: Path) -> None:
    chance = random.Random()
    acknowledged: list[str] = []
    for _ in range(LIVES):
        broker, address = await _started(tmp_path, chance.choice(_AHEAD))
        await _use(broker, address, acknowledged, chance)
        if chance.random() < 0.3:
            await _stop(broker)
        else:
            broker.kill()
            await broker.wait()
    # Ten years ahead and back: a jump like this once stopped timers for good.
    broker, address = await _started(tmp_path, _YEARS)
    await _use(broker, address, acknowledged, chance, steps=(_YEARS, 0))
    delivered = await _delivered(address, len(acknowledged))
    await _stop(broker)

    lost = [name for name in acknowledged if not delivered[name]]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged messages were not delivered, the first {lost[0]}"
    report = check(detect_settings(tmp_path))
    assert report.is_clean
    assert report.complaints == []
    duplicates = sum(delivered[name] - 1 for name in acknowledged)
    record_proof("clocks", runs=LIVES + 1, promised=len(acknowledged), duplicates=duplicates)


async def _started(directory: Path, ahead_millis: int) -> tuple[Process, str]:
    arguments = ("-m", "tests.crash.stepped_broker", str(directory), str(ahead_millis))
    broker = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT, env=environment()
    )
    assert broker.stdout is not None
    line = await asyncio.wait_for(broker.stdout.readline(), _START_SECONDS)
    assert line, "the broker did not start"
    return broker, line.decode().strip()


async def _use(
    broker: Process, address: str, acknowledged: list[str], chance: random.Random, steps: tuple[int, ...] = ()
) -> None:
    """Set the clock several times, and send timer messages in between."""
    assert broker.stdin is not None
    async with Client() as client:
        for ahead_millis in steps or chance.choices(_AHEAD, k=_STEPS):
            broker.stdin.write(b"%d\n" % ahead_millis)
            await broker.stdin.drain()
            for _ in range(_SENDS):
                name = f"m{len(acknowledged)}"
                delay = chance.randrange(100, _DELAY_MILLIS_MAX)
                request = sending("orders", 0, UNIQ_KEY=name, TIMER_DELAY_MS=str(delay))
                await client.call(address, request, name.encode(), timeout_seconds=30)
                acknowledged.append(name)
            await asyncio.sleep(chance.uniform(0, 0.5))


async def _delivered(address: str, count: int) -> Counter[str]:
    """Return the deliveries, once all have arrived or the deadline has passed."""
    deadline = asyncio.get_running_loop().time() + _DELIVERY_SECONDS
    while True:
        try:
            delivered = Counter(message.body.decode() for message in await stored(address, "orders", 0))
        except KeroloxError:
            # The queue does not exist before the first delivery.
            delivered = Counter()
        if len(delivered) >= count or asyncio.get_running_loop().time() > deadline:
            return delivered
        await asyncio.sleep(0.2)


async def _stop(broker: Process) -> None:
    assert broker.stdin is not None
    broker.stdin.close()
    assert await asyncio.wait_for(broker.wait(), _START_SECONDS) == 0
