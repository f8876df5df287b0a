"""Makes the broker known to the NameServers: all of its topics every so often, a new one at once."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from kerolox.broker.announcement import Announcement
from kerolox.broker.configuration import BrokerConfig
from kerolox.broker.topics import TopicTable
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, ProtocolError, RemotingError
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.topics import TopicConfig

log = logging.getLogger(__name__)

# How long a start waits for the first NameServer that answers, and then for the others; and how long a stop waits
# for those that should forget the broker.
_FIRST_SECONDS = 3.0
_OTHERS_SECONDS = 0.5
_STOP_SECONDS = 3.0
# Who does not know light heartbeats may say nothing at all; the registration waits for the answer only a moment.
_PROBE_SECONDS = 10.0
_PROBE_FIRST_SECONDS = 0.5
_RETRY_SECONDS = 5.0


class Registration(Service):
    """Each NameServer is told by a task of its own, so that one that is down, slow or hangs delays nobody."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, client: Client, announcement: Announcement, clock: Clock
    ) -> None:
        self.announcement = announcement
        self.config = config
        self.topics = topics
        self.client = client
        self.clock = clock
        self._links: dict[str, _Link] = {}
        self._is_open = False

    async def open(self) -> None:
        """Registers with all NameServers at once, and waits a moment for those that answer."""
        self._is_open = True
        for link in self._links.values():
            link.start()
        waiting = {asyncio.create_task(link.tried.wait()) for link in self._links.values()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                while waiting and not self.registered:
                    _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting and self.registered:
            _, waiting = await asyncio.wait(waiting, timeout=_OTHERS_SECONDS)
        for task in waiting:
            task.cancel()
        if self._links and not self.registered:
            log.warning(
                "none of the NameServers %s knows this broker yet, so clients cannot find it; they are tried again "
                "every %d s: check namesrvAddr, and that they run",
                ";".join(self._links),
                _RETRY_SECONDS,
            )

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        self._is_open = False
        await asyncio.gather(*(link.stop() for link in self._links.values()))
        farewells = [asyncio.create_task(link.unregister()) for link in self._links.values()]
        if farewells:
            _, late = await asyncio.wait(farewells, timeout=_STOP_SECONDS)
            for farewell in late:
                farewell.cancel()
            await asyncio.gather(*farewells, return_exceptions=True)

    def update(self, addresses: Iterable[str]) -> None:
        """Takes a new list of NameServers; those that are no longer on it forget the broker by themselves."""
        wanted = list(dict.fromkeys(addresses))
        for address in self._links.keys() - set(wanted):
            self._links.pop(address).cancel()
        for address in wanted:
            if address not in self._links:
                link = self._links[address] = _Link(self, address)
                if self._is_open:
                    link.start()

    @property
    def addresses(self) -> list[str]:
        return list(self._links)

    @property
    def registered(self) -> list[str]:
        """The NameServers that know the broker, as far as it knows."""
        return [address for address, link in self._links.items() if link.is_registered]

    def register_soon(self, topic: TopicConfig | None = None) -> None:
        """Tells all NameServers of a topic that is new or has changed; of everything if none is given."""
        for link in self._links.values():
            link.wake(topic)


class _Link:
    """What one NameServer is told, and when."""

    def __init__(self, registration: Registration, address: str) -> None:
        self._of = registration
        self._say = registration.announcement
        self._client = registration.client
        self._clock = registration.clock
        self.address = address
        self.is_registered = False
        # Set when the first attempt has ended, however it did.
        self.tried = asyncio.Event()
        # Whether the NameServer knows light heartbeats; before 5.0 none does. None as long as it is not known.
        self._takes_heartbeats: bool | None = None
        self._has_been_told = False
        # Whether the last registration said that heartbeats will follow.
        self._has_promised = False
        self._wanted = asyncio.Event()
        self._topics: set[str] = set()
        self._is_all_wanted = True
        self._task: asyncio.Task[None] | None = None

    # Its task

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"registration with {self.address}")

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            try:
                await self._work()
            except Exception:
                log.exception("the registration with NameServer %s failed, and begins anew", self.address)
                self._is_all_wanted = True
                await self._clock.sleep(_RETRY_SECONDS)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            due = self._clock.monotonic()
            while True:
                is_due = self._clock.monotonic() >= due
                if is_due or self._is_all_wanted:
                    is_forced = self._is_all_wanted or self._of.config.force_register or not self.is_registered
                    await self._register(tasks, is_forced=is_forced)
                    due = self._clock.monotonic() + (self._period if self.is_registered else _RETRY_SECONDS)
                elif self._topics:
                    await self._tell_changes()
                await self._until(due)

    @property
    def _period(self) -> float:
        return min(max(self._of.config.register_name_server_period, 10_000), 60_000) / 1000

    async def _until(self, due: float) -> None:
        """Returns at that time, or earlier if there is something to tell."""
        alarm = asyncio.create_task(self._ring(due - self._clock.monotonic()))
        try:
            await self._wanted.wait()
            self._wanted.clear()
        finally:
            alarm.cancel()

    async def _ring(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._wanted.set()

    def wake(self, topic: TopicConfig | None = None) -> None:
        if topic is None:
            self._is_all_wanted = True
        else:
            self._topics.add(topic.topic_name)
        self._wanted.set()

    # Telling

    async def _register(self, tasks: asyncio.TaskGroup, *, is_forced: bool) -> None:
        """Tells everything; unless `is_forced` only if the NameServer does not have it yet."""
        self._is_all_wanted = False
        self._topics.clear()
        try:
            if self._takes_heartbeats is None:
                probe = tasks.create_task(self._probe())
                await asyncio.wait([probe], timeout=_PROBE_FIRST_SECONDS)
            if is_forced or await self._is_changed():
                for body in self._say.everything():
                    await self._send(body)
        except (KeroloxError, OSError) as error:
            self._failed(error)
        else:
            if not self.is_registered:
                log.info("registered with NameServer %s", self.address)
            self.is_registered = True
        finally:
            self.tried.set()

    async def _tell_changes(self) -> None:
        names, self._topics = self._topics, set()
        try:
            await self._send(self._say.some(names))
        except (KeroloxError, OSError) as error:
            self._failed(error)
            # It may have forgotten the broker; told everything, it knows it again.
            self.wake()

    async def _send(self, body: bytes) -> None:
        self._has_promised = bool(self._takes_heartbeats)
        request = self._say.registration(body, heartbeats=self._has_promised)
        seconds = self._of.config.register_broker_timeout_mills / 1000
        self._has_been_told = True
        answer = await self._client.call(self.address, request, body, timeout_seconds=seconds)
        if answer.body:
            try:
                self._of.topics.take_order(KVTable.decode(answer.body).table)
            except ProtocolError as error:
                log.warning("NameServer %s sent an order of topics that cannot be read: %s", self.address, error)

    async def _is_changed(self) -> bool:
        request, body = self._say.version()
        return (await self._client.call(self.address, request, body)).fields.changed

    def _failed(self, error: Exception) -> None:
        # Once, and not every few seconds.
        level = logging.WARNING if self.is_registered or not self.tried.is_set() else logging.DEBUG
        log.log(level, "NameServer %s could not be told of this broker: %s", self.address, error)
        self.is_registered = False

    async def unregister(self) -> None:
        if not self._has_been_told:
            return
        try:
            await self._client.call(self.address, self._say.farewell(), timeout_seconds=_STOP_SECONDS)
        except (KeroloxError, OSError) as error:
            log.warning("NameServer %s was not told that the broker ends: %s", self.address, error)

    # Light heartbeats

    async def _probe(self) -> None:
        """Finds out whether the NameServer knows light heartbeats."""
        try:
            await self._client.call(self.address, self._say.heartbeat(), timeout_seconds=_PROBE_SECONDS)
            takes = True
        except AnswerError as error:
            takes = error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        except (KeroloxError, OSError):
            if not self._client.is_connected(self.address):
                return
            takes = False
        self._takes_heartbeats = takes
        if takes and self._has_been_told and not self._has_promised:
            # The answer came late: the NameServer has been told of the broker, and does not expect heartbeats of it.
            self.wake()

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._of.config.broker_heartbeat_interval / 1000)
            if not self.is_registered:
                continue
            if not self._client.is_connected(self.address):
                # It has ended, and may be another one when it is back: older, or one that knows nothing.
                self._takes_heartbeats = None
                self._failed(RemotingError("the connection is lost"))
                self.wake()
            elif self._takes_heartbeats:
                try:
                    await self._client.call_oneway(self.address, self._say.heartbeat())
                except (RemotingError, OSError) as error:
                    self._failed(error)
                    self.wake()
