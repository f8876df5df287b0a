"""Brokers to be avoided: those that failed, until they answer again, and if wanted those that are slow.

A NameServer lists a dead broker for up to two minutes. Whoever sends must not pay for that more than once.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

# As in Java since 5.1: who took so many milliseconds is avoided for so many.
_LATENCIES_MILLIS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
_AVOIDED_MILLIS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)

PROBE_SECONDS: Final = 1.0


class Faults:
    """By address: a broker that comes back elsewhere begins anew."""

    def __init__(
        self,
        probe: Callable[[str], Awaitable[object]],
        known: Callable[[], set[str]],
        run: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
        *,
        is_latency_heeded: bool = False,
    ) -> None:
        self._probe = probe
        # The addresses that routes name: what they name no more is forgotten.
        self._known = known
        self._run = run
        self._clock = clock
        self._is_latency_heeded = is_latency_heeded
        self._failed: set[str] = set()
        self._slow_until: dict[str, int] = {}
        self._is_probing = False

    @property
    def are_any(self) -> bool:
        return bool(self._failed or self._slow_until)

    def is_good(self, address: str | None) -> bool:
        if address is None or address in self._failed:
            return False
        until = self._slow_until.get(address)
        if until is not None and until <= self._clock.millis():
            del self._slow_until[address]
            return True
        return until is None

    def failed(self, address: str) -> None:
        """Avoids a broker until it answers a probe."""
        if address not in self._failed:
            log.warning("broker %s failed and is avoided until it answers", address)
        self._failed.add(address)
        if not self._is_probing:
            self._is_probing = True
            self._run(self._probe_failed())

    def answered(self, address: str, millis: int) -> None:
        """Notes that a broker took a message, and how long that took."""
        self._failed.discard(address)
        if self._is_latency_heeded:
            position = bisect_right(_LATENCIES_MILLIS, millis)
            if position and _AVOIDED_MILLIS[position - 1]:
                now = self._clock.millis()
                self._slow_until = {slow: until for slow, until in self._slow_until.items() if until > now}
                self._slow_until[address] = now + _AVOIDED_MILLIS[position - 1]

    async def _probe_failed(self) -> None:
        try:
            while self._failed:
                await self._clock.sleep(PROBE_SECONDS)
                self._failed &= self._known()
                await asyncio.gather(*map(self._probe_one, list(self._failed)))
        finally:
            self._is_probing = False

    async def _probe_one(self, address: str) -> None:
        try:
            await self._probe(address)
        except KeroloxError as error:
            log.debug("broker %s does not answer yet: %s", address, error)
        else:
            if address in self._failed:
                log.info("broker %s answers again", address)
                self._failed.discard(address)
