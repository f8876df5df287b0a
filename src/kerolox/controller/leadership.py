"""Leadership among controllers that share a storage: campaigns for it, and loads the groups when it is won."""

import logging
from collections.abc import Callable

from kerolox.controller.errors import NotLeader
from kerolox.controller.groups import BrokerGroups
from kerolox.controller.storage.storage import Leadership, Storage, StorageUnavailable
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service

log = logging.getLogger(__name__)

# A lease lasts several campaigns.
CAMPAIGN_SECONDS = 1.0


class LeadershipService(Service):
    """`identity` returns the id and the address of this controller; it is called after the server has been opened."""

    def __init__(
        self, storage: Storage, groups: BrokerGroups, identity: Callable[[], tuple[str, str]], clock: Clock
    ) -> None:
        self._storage = storage
        self._groups = groups
        self._identity = identity
        self._clock = clock
        self._current = Leadership(False)

    @property
    def current(self) -> Leadership:
        """Who leads, as far as this controller knows."""
        if self._current.is_leader and self._clock.monotonic() >= self._current.until:
            return Leadership(False)
        return self._current

    def require(self) -> None:
        """Raise NotLeader unless this controller leads."""
        if not self.current.is_leader:
            raise NotLeader("The controller is not in leader state")

    async def open(self) -> None:
        await self._campaign()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(CAMPAIGN_SECONDS)
            try:
                await self._campaign()
            except Exception:
                log.exception("the campaign for leadership failed")

    async def _campaign(self) -> None:
        try:
            found = await self._storage.campaign(*self._identity())
            if found.is_leader and not self.current.is_leader:
                # Others may have changed groups since this controller last led.
                await self._groups.load()
                log.info("this controller leads, with %d broker groups", len(self._groups.all))
            elif self.current.is_leader and not found.is_leader:
                log.warning("this controller does not lead any more; %s does", found.leader_address or "nobody yet")
        except StorageUnavailable as error:
            log.warning("leadership is not decided: %s", error)
        else:
            self._current = found

    async def close(self) -> None:
        self._current = Leadership(False)
        try:
            await self._storage.resign()
        except StorageUnavailable as error:
            log.warning("leadership ends when its lease expires: %s", error)
