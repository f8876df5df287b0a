"""A slave as a process of its own, to be killed: python -m tests.replication.slave_process ROOT MASTER FLUSH."""

import asyncio
import sys
from pathlib import Path

from kerolox.store.config import FlushDiskType
from tests.replication.nodes import running_slave, store_config


async def main(root: str, master: str, flush: str) -> None:
    async with running_slave(store_config(Path(root), FlushDiskType(flush)), master):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
