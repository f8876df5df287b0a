"""Runs each example like a user."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kerolox.client import ConsumeFrom, PullConsumer
from kerolox.testing import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples"


async def run(name: str, *arguments: str, with_spark: dict[str, str] | None = None) -> list[str]:
    """Return the output lines of an example that must succeed and, without Spark, print nothing to stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / name), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=with_spark or {**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")},
    )
    try:
        printed, errors = await asyncio.wait_for(process.communicate(), 500 if with_spark else 100)
    except BaseException:
        process.kill()
        await process.communicate()
        raise
    assert (process.returncode, "" if with_spark else errors.decode()) == (0, ""), (printed, errors)
    return printed.decode().splitlines()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("push_consumer.py", "all 10 orders are done"),
        ("pull_consumer.py", "the group read [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"),
        ("simple_consumer.py", "job 3 done, attempt 2"),
        ("transactions.py", "shipped: cheap, interrupted"),
        ("request_reply.py", "40 + 2 = 42"),
    ],
)
async def test_an_example_starts_its_own_cluster(name: str, expected: str) -> None:
    assert expected in await run(name)


async def test_an_example_accepts_a_name_server(kerolox_cluster: Cluster) -> None:
    printed = await run("producer.py", kerolox_cluster.namesrv_addr)

    assert printed[1:] == [
        "sent 100 at once, to 4 queues",
        "sent a list of 3",
        "sent 3 steps in order, to 1 queue",
        "sent two reminders for later",
        "sent 1000 clicks in batches",
    ]
    assert len(await read(kerolox_cluster, "orders", 104)) == 104
    assert await read(kerolox_cluster, "steps", 3) == [b"made", b"paid", b"sent"]
    assert set(await read(kerolox_cluster, "clicks", 1001)) == {b"a click"}
    assert await read(kerolox_cluster, "reminders", 1) == [b"in a second"]


async def read(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    async with PullConsumer(
        "readers", topics=topic, consume_from=ConsumeFrom.FIRST_OFFSET, namesrv_addr=cluster.namesrv_addr
    ) as consumer:
        async with asyncio.timeout(60):
            return [(await anext(consumer)).body for _ in range(count)]
