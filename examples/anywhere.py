"""Runs an example with the NameServer given on the command line, or else with its own cluster."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from kerolox.testing import Cluster


def run(main: Callable[[str], Awaitable[None]], settings: dict[str, str] | None = None) -> None:
    """Calls `main` with the address of a NameServer. `settings` configure the broker of our own cluster."""

    async def with_own_cluster() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with Cluster(Path(directory), settings=settings) as cluster:
                await main(cluster.namesrv_addr)

    async def with_address(address: str) -> None:
        await main(address)

    asyncio.run(with_address(sys.argv[1]) if sys.argv[1:] else with_own_cluster())
