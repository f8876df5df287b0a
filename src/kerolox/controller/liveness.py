"""Which brokers are alive: their heartbeats and connections (DefaultBrokerHeartbeatManager).

This is never stored. It decides when to elect, and whom among those who may be elected; it never decides who may.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kerolox.controller.state import LiveBroker
from kerolox.runtime.clock import Clock

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
_TIMEOUT_MILLIS_MIN, _TIMEOUT_MILLIS_MAX = 100, 3_600_000


class BrokerKey(NamedTuple):
    cluster: str
    name: str
    broker_id: int


class Channel(Protocol):
    """The connection of a broker."""

    def abort(self) -> None: ...


class Heartbeat(NamedTuple):
    broker: LiveBroker
    channel: Channel
    expires_at: float


class Liveness:
    def __init__(self, clock: Clock, *, brokers_max: int) -> None:
        self._clock = clock
        self._brokers_max = brokers_max
        self._heartbeats: dict[str, dict[BrokerKey, Heartbeat]] = {}
        self._by_channel: dict[Channel, set[BrokerKey]] = {}
        self.count = 0

    def beat(self, key: BrokerKey, broker: LiveBroker, channel: Channel, timeout_millis: int | None) -> bool:
        """Keep a heartbeat; False if there are too many brokers already."""
        beats = self._heartbeats.setdefault(key.name, {})
        previous = beats.get(key)
        if previous is None:
            if self.count >= self._brokers_max:
                if not beats:
                    del self._heartbeats[key.name]
                return False
            self.count += 1
            log.info("broker %s of %s is alive", key.broker_id, key.name)
        elif previous.channel is not channel:
            self._leave(previous.channel, key)
        seconds = TIMEOUT_SECONDS
        if timeout_millis is not None:
            seconds = min(max(timeout_millis, _TIMEOUT_MILLIS_MIN), _TIMEOUT_MILLIS_MAX) / 1000
        beats[key] = Heartbeat(broker, channel, self._clock.monotonic() + seconds)
        self._by_channel.setdefault(channel, set()).add(key)
        return True

    def living(self, cluster: str, name: str) -> dict[int, LiveBroker]:
        """Return the living brokers of a group, by id."""
        now = self._clock.monotonic()
        return {
            key.broker_id: beat.broker
            for key, beat in self._heartbeats.get(name, {}).items()
            if key.cluster == cluster and beat.expires_at >= now
        }

    def channel_closed(self, channel: Channel) -> set[str]:
        """Forget the brokers of a connection; return the names of their groups."""
        keys = self._by_channel.pop(channel, set())
        for key in keys:
            log.warning("broker %s of %s has closed its connection", key.broker_id, key.name)
            self._forget(key)
        return {key.name for key in keys}

    def expire(self) -> set[str]:
        """Forget brokers without a heartbeat in time, and close their connections; return the names of their groups."""
        now = self._clock.monotonic()
        expired = [(key, beat) for key, beat in self._all() if beat.expires_at < now]
        for key, beat in expired:
            log.warning("broker %s of %s has sent no heartbeat in time", key.broker_id, key.name)
            self._leave(beat.channel, key)
            self._forget(key)
            beat.channel.abort()
        return {key.name for key, _ in expired}

    def _all(self) -> Iterator[tuple[BrokerKey, Heartbeat]]:
        for beats in self._heartbeats.values():
            yield from beats.items()

    def _forget(self, key: BrokerKey) -> None:
        beats = self._heartbeats[key.name]
        del beats[key]
        self.count -= 1
        if not beats:
            del self._heartbeats[key.name]

    def _leave(self, channel: Channel, key: BrokerKey) -> None:
        keys = self._by_channel[channel]
        keys.discard(key)
        if not keys:
            del self._by_channel[channel]
