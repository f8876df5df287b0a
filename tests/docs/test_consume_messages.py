"""Runs the programs of the page about consuming until they have printed the expected lines."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from kerolox.client import Message, Producer
from kerolox.testing import Cluster

ROOT = Path(__file__).parents[2]
PUSH, PULL, SIMPLE = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "consume-messages.md").read_text(), re.DOTALL
)


async def first_lines(program: str, count: int, cluster: Cluster) -> set[str]:
    """Return the first lines that a program prints, then interrupts it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", program.replace("127.0.0.1:9876", cluster.namesrv_addr)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            lines = {(await process.stdout.readline()).decode().strip() for _ in range(count)}
        process.send_signal(signal.SIGINT)
        _, complaint = await asyncio.wait_for(process.communicate(), 60)
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    assert complaint.decode().strip().splitlines()[-1:] == ["KeyboardInterrupt"]
    return lines


@pytest.fixture
async def orders(kerolox_cluster: Cluster) -> Cluster:
    """A cluster with three orders in one queue."""
    async with Producer("shop", namesrv_addr=kerolox_cluster.namesrv_addr) as producer:
        for number, tag in enumerate(("paid", "made", "refunded")):
            await producer.send(Message("orders", b"%d" % number, tag=tag, keys=[f"order-{number}"]), order_by=0)
    return kerolox_cluster


async def test_the_push_consumer_program_works(orders: Cluster) -> None:
    assert await first_lines(PUSH, 2, orders) == {"orders paid ['order-0'] b'0'", "orders refunded ['order-2'] b'2'"}


async def test_the_pull_consumer_program_works(orders: Cluster) -> None:
    lines = await first_lines(PULL, 3, orders)

    assert {line.split(" ", 1)[1] for line in lines} == {"0 b'0'", "1 b'1'", "2 b'2'"}


async def test_the_simple_consumer_program_works(orders: Cluster) -> None:
    assert await first_lines(SIMPLE, 3, orders) == {"b'0'", "b'1'", "b'2'"}
