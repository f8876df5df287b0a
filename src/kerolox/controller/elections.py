"""Elections that the controller starts itself, and the notices of their results (ControllerManager)."""

import asyncio
import logging

from kerolox.controller import state
from kerolox.controller.config import ControllerConfig
from kerolox.controller.groups import BrokerGroups
from kerolox.controller.leadership import LeadershipService
from kerolox.controller.liveness import TIMEOUT_SECONDS, Channel, Liveness
from kerolox.controller.state import BrokerGroup, Decision, RoleChange
from kerolox.errors import AnswerError, ConfigurationError, RemotingError
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.wire.headers import controller as h
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

NOTICES_MAX = 10_000
CONCURRENT_CALLS_MAX = 64
NOTICE_TIMEOUT_SECONDS = 3.0
# Groups that a scan looks at before other work gets its turn.
SCANNED_AT_ONCE_MAX = 500


class Notifier(Service):
    """Sends NOTIFY_BROKER_ROLE_CHANGED to the living brokers of a group."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        self._notices: asyncio.Queue[tuple[str, RoleChange]] = asyncio.Queue(NOTICES_MAX)
        self._free = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    def submit(self, change: RoleChange | None) -> None:
        if change is None or not self._config.notify_broker_role_changed:
            return
        try:
            for address in change.addresses:
                self._notices.put_nowait((address, change))
        except asyncio.QueueFull:
            log.warning("a notice was dropped: %d notices are waiting; the brokers will ask by themselves", NOTICES_MAX)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                address, change = await self._notices.get()
                await self._free.acquire()
                tasks.create_task(self._send(address, change))

    async def _send(self, address: str, change: RoleChange) -> None:
        try:
            # A connection per notice: notices are rare, and a kept connection would not be monitored.
            async with asyncio.timeout(NOTICE_TIMEOUT_SECONDS), Client() as client:
                await client.call_oneway(address, change.notice, change.sync_state_set)
        except (RemotingError, ConfigurationError, TimeoutError) as error:
            log.warning("broker %s could not be told of its new master: %s", address, error)
        finally:
            self._free.release()


class Elections(Service):
    """Elects a new master when the old one is gone: at once if its connection closes, else at the next scan."""

    def __init__(
        self,
        groups: BrokerGroups,
        liveness: Liveness,
        leadership: LeadershipService,
        notifier: Notifier,
        config: ControllerConfig,
    ) -> None:
        self._groups = groups
        self._liveness = liveness
        self._leadership = leadership
        self._notifier = notifier
        self._config = config
        # Names of groups to look at, in order; a dict, so that each waits once.
        self._waiting: dict[str, None] = {}
        self._wake_up = asyncio.Event()

    def channel_closed(self, channel: Channel) -> None:
        """React to the loss of a connection; called by the server."""
        self.submit(*self._liveness.channel_closed(channel))

    def submit(self, *names: str) -> None:
        self._waiting.update(dict.fromkeys(names))
        self._wake_up.set()

    async def run(self) -> None:
        while True:
            await self._wake_up.wait()
            self._wake_up.clear()
            while self._waiting:
                name = next(iter(self._waiting))
                del self._waiting[name]
                await self._elect(name)

    async def _elect(self, name: str) -> None:
        for _ in range(self._config.elect_master_max_retry_count):
            if not self._leadership.current.is_leader:
                return
            try:
                decision = await self._groups.change(name, lambda group: self._decide(name, group))
            except AnswerError as error:
                log.warning("the election for %s failed: %s", name, error)
                continue
            except Exception:
                log.exception("the election for %s failed", name)
                return
            if decision.role_change is not None:
                fields = decision.reply.fields
                log.warning("broker %s is master of %s in epoch %s", fields.master_broker_id, name, fields.master_epoch)
            self._notifier.submit(decision.role_change)
            return

    def _decide(self, name: str, group: BrokerGroup | None) -> Decision[h.MasterElected]:
        if group is None or not self._needs_master(name, group):
            return Decision(group, Reply(h.MasterElected()))
        living = self._liveness.living(group.cluster, name)
        return state.elect_master(
            group,
            h.ElectMaster(broker_name=name),
            living,
            is_unclean_allowed=self._config.enable_elect_unclean_master,
        )

    async def scan(self) -> None:
        """Look at all groups without a living master."""
        for number, (name, group) in enumerate(self._groups.all.items()):
            # If nobody lives there is nobody to elect; the epoch would only grow with every scan.
            if self._needs_master(name, group) and self._liveness.living(group.cluster, name):
                self.submit(name)
            if number % SCANNED_AT_ONCE_MAX == SCANNED_AT_ONCE_MAX - 1:
                await asyncio.sleep(0)

    def _needs_master(self, name: str, group: BrokerGroup) -> bool:
        living = self._liveness.living(group.cluster, name)
        if group.master is not None:
            return group.master not in living
        # Without a living member an election would change nothing but the epoch.
        return not group.sync_state_set.isdisjoint(living)


class NotActiveScan(Service):
    """Expires brokers without heartbeats (scanNotActiveBroker)."""

    def __init__(self, liveness: Liveness, elections: Elections, config: ControllerConfig, clock: Clock) -> None:
        self._liveness = liveness
        self._elections = elections
        self._config = config
        self._clock = clock

    async def run(self) -> None:
        while True:
            # Not cached: an operator may change the interval at runtime.
            await self._clock.sleep(self._config.scan_not_active_broker_interval / 1000)
            self._elections.submit(*self._liveness.expire())


class InactiveMasterScan(Service):
    """Finds groups whose master is gone, whatever event was missed (scanInactiveMaster)."""

    def __init__(
        self, elections: Elections, leadership: LeadershipService, config: ControllerConfig, clock: Clock
    ) -> None:
        self._elections = elections
        self._leadership = leadership
        self._config = config
        self._clock = clock

    async def run(self) -> None:
        # A controller that has just started has heard of no broker yet; its masters are not dead.
        await self._clock.sleep(TIMEOUT_SECONDS)
        while True:
            if self._leadership.current.is_leader:
                await self._elections.scan()
            await self._clock.sleep(self._config.scan_inactive_master_interval / 1000)
