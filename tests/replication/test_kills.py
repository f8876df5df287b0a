"""A slave that is killed while it copies continues where its files end."""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from kerolox.replication.config import ReplicationConfig
from kerolox.replication.replica_acks import ReplicaAcks
from kerolox.store.config import FlushDiskType
from kerolox.store.log.pending_acks import AckStatus
from kerolox.store.store import Store, StoreHooks
from tests.replication.nodes import assert_equal, running_master, running_slave, store_config, until
from tests.store.stores import draft


def _has(ends: list[int], count: int) -> bool:
    return len(ends) > count


@contextlib.asynccontextmanager
async def slave_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.replication.slave_process", *arguments)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def send_all(store: Store, ends: list[int]) -> None:
    """Send messages all the time, and collect the ends of those that were acknowledged as copied."""
    chance = random.Random(1)
    while True:
        body = chance.randbytes(chance.choice([10, 500, 3000]))
        appended, status = await store.put(draft(body, f"t{chance.randrange(3)}", KEYS="k"))
        if status is AckStatus.OK:
            ends.append(appended.end_offset)
        await asyncio.sleep(0)


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_killed_slave_has_every_acknowledged_message_and_continues(
    tmp_path: Path, flush: FlushDiskType
) -> None:
    replication = ReplicationConfig(slave_timeout=200)
    hooks = StoreHooks(copies=ReplicaAcks(replication))
    slave_config = store_config(tmp_path / "slave", flush)
    async with running_master(store_config(tmp_path / "master"), replication, hooks=hooks) as master:
        ends: list[int] = []
        sending = asyncio.create_task(send_all(master.store, ends))
        try:
            for kill in range(3):
                async with slave_process(str(tmp_path / "slave"), master.address, flush.value):
                    count = len(ends) + 50 + 20 * kill
                    await until(partial(_has, ends, count))
                recovered = Store(slave_config, hooks=StoreHooks(is_copy=True))
                recovered.recover()
                assert recovered.log.end_offset >= ends[-1]
                await recovered.close()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        async with running_slave(slave_config, master.address) as slave:
            await until(lambda: slave.store.held_offset == master.store.log.end_offset)
            assert_equal(master.store, slave.store)
