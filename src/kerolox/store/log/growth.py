"""Wakes tasks that wait for the commit log to grow (WaitNotifyObject)."""

import asyncio

from kerolox.store.log.commit_log import CommitLog


class LogGrowth:
    """Waiters for the next append. The store calls `wake` if there are `waiters`, so without any it costs a check."""

    def __init__(self, commit_log: CommitLog) -> None:
        self._log = commit_log
        self.waiters: set[asyncio.Future[None]] = set()

    async def wait(self, offset: int) -> None:
        """Return when the log has more than `offset` bytes. The caller limits the time by cancelling."""
        while self._log.end_offset <= offset:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.add(waiter)
            try:
                await waiter
            finally:
                self.waiters.discard(waiter)

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
