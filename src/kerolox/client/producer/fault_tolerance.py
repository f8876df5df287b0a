"""Avoids brokers that failed, until they respond to a probe, and optionally slow ones (LatencyFaultTolerance).

A NameServer lists a dead broker for up to two minutes. Without this, every send in that time could try it.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from kerolox.errors import KeroloxError
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

# Java's table since 5.1: a broker whose send took at least LATENCIES[i] is avoided for AVOIDED[i].
_LATENCIES_MILLIS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
_AVOIDED_MILLIS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)

PROBE_SECONDS: Final = 1.0


class FaultTolerance:
    """Keyed by address, not by name: a broker that restarts at another address is not avoided.

    `known_addresses` returns the brokers of all routes; others are not probed any more.
    """

    def __init__(
        self,
        probe: Callable[[str], Awaitable[object]],
        known_addresses: Callable[[], set[str]],
        run_in_background: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
        *,
        avoid_slow: bool = False,
    ) -> None:
        self._probe = probe
        self._known_addresses = known_addresses
        self._run_in_background = run_in_background
        self._clock = clock
        self._avoid_slow = avoid_slow
        self._failed: set[str] = set()
        self._slow_until: dict[str, int] = {}
        self._is_probing = False

    @property
    def has_faults(self) -> bool:
        return bool(self._failed or self._slow_until)

    def is_available(self, address: str | None) -> bool:
        if address is None or address in self._failed:
            return False
        until = self._slow_until.get(address)
        if until is not None and until <= self._clock.millis():
            del self._slow_until[address]
            return True
        return until is None

    def record_failure(self, address: str) -> None:
        """Avoid a broker until it responds to a probe."""
        if address not in self._failed:
            log.warning("broker %s failed and is avoided until it responds to a probe", address)
        self._failed.add(address)
        if not self._is_probing:
            self._is_probing = True
            self._run_in_background(self._probe_failed())

    def record_success(self, address: str, latency_millis: int) -> None:
        """Stop avoiding a broker; if slow ones are avoided and it was slow, avoid it for some time instead."""
        self._failed.discard(address)
        if self._avoid_slow:
            position = bisect_right(_LATENCIES_MILLIS, latency_millis)
            if position and _AVOIDED_MILLIS[position - 1]:
                now = self._clock.millis()
                self._slow_until = {slow: until for slow, until in self._slow_until.items() if until > now}
                self._slow_until[address] = now + _AVOIDED_MILLIS[position - 1]

    async def _probe_failed(self) -> None:
        try:
            while self._failed:
                await self._clock.sleep(PROBE_SECONDS)
                self._failed &= self._known_addresses()
                await asyncio.gather(*map(self._probe_one, list(self._failed)))
        finally:
            self._is_probing = False

    async def _probe_one(self, address: str) -> None:
        try:
            await self._probe(address)
        except KeroloxError as error:
            log.debug("broker %s still does not respond: %s", address, error)
        else:
            if address in self._failed:
                log.info("broker %s responds again", address)
                self._failed.discard(address)
