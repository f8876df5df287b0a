"""Registers the broker with NameServers: periodically, and at once when a topic is created or changed.

Java does this in BrokerController.registerBrokerAll. Here each NameServer has a task of its own (_NameServerLink), so
that one that is down, slow or hangs delays only itself.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from kerolox.broker.config import MASTER_ID, BrokerConfig
from kerolox.broker.registration.requests import RegistrationRequests
from kerolox.broker.tables.topics import TopicTable
from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError, ProtocolError, RemotingError
from kerolox.remoting.client import Client
from kerolox.runtime.clock import Clock
from kerolox.runtime.service import Service
from kerolox.wire.bodies.kv import KVTable
from kerolox.wire.bodies.routes import BrokerMemberGroupBody
from kerolox.wire.bodies.topics import TopicConfig
from kerolox.wire.headers.namesrv import BrokerRegistered

log = logging.getLogger(__name__)

# How long `open` waits for the first registration, and then for those with the other NameServers.
_OPEN_FIRST_SECONDS = 3.0
_OPEN_OTHERS_SECONDS = 0.5
# How long `close` waits for NameServers to unregister the broker.
_CLOSE_SECONDS = 3.0
# A NameServer that does not support light heartbeats may not respond to one at all. A registration waits for the
# response only for a short time, and goes on without it.
_PROBE_SECONDS = 10.0
_PROBE_WAIT_SECONDS = 0.5
_RETRY_SECONDS = 5.0
# Encoding a registration blocks the event loop for about 10 us per topic. With more topics than this, the next
# registration because of a changed topic is delayed by 20 times as long, so that creating topics in quick succession
# costs a small share of the time. The delay depends on the number of topics and not on the time that was measured,
# because a garbage collection or another process can take any share of a measured time.
_PROMPT_TOPICS_MAX = 1_000
_PAUSE_SECONDS_PER_TOPIC = 0.0002
# Java's timeout for REGISTER_TOPIC_IN_NAMESRV.
_TOPIC_SECONDS = 3.0


class Registrar(Service):
    """Keeps the broker registered with all NameServers of the current list."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, client: Client, requests: RegistrationRequests, clock: Clock
    ) -> None:
        self.requests = requests
        self.config = config
        self.topics = topics
        self.client = client
        self.clock = clock
        self._links: dict[str, _NameServerLink] = {}
        self._is_open = False
        # NameServer → its last response to a registration.
        self._answers: dict[str, BrokerRegistered] = {}
        self._on_master: Callable[[str | None, str | None], None] = lambda address, ha_address: None

    def set_master_listener(self, on_master: Callable[[str | None, str | None], None]) -> None:
        """Call `on_master` with address and HA address of the group's master, after each registration of a slave.

        They are those of the first NameServer that knows a master; None if none does.
        """
        self._on_master = on_master

    def note_answer(self, name_server: str, answer: BrokerRegistered) -> None:
        self._answers[name_server] = answer
        known = (self._answers[address] for address in self._links if address in self._answers)
        found = next((answer for answer in known if answer.master_addr), BrokerRegistered())
        self._on_master(found.master_addr or None, found.ha_server_addr or None)

    async def open(self) -> None:
        """Register with all NameServers concurrently; wait a few seconds at most."""
        self._is_open = True
        for link in self._links.values():
            link.start()
        waiting = {asyncio.create_task(link.tried.wait()) for link in self._links.values()}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_FIRST_SECONDS):
                while waiting and not self.registered:
                    _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting and self.registered:
            _, waiting = await asyncio.wait(waiting, timeout=_OPEN_OTHERS_SECONDS)
        for task in waiting:
            task.cancel()
        if self._links and not self.registered:
            log.warning(
                "could not register with any of the NameServers %s, so clients cannot find this broker; retrying "
                "every %d s: check namesrvAddr and that the NameServers are running",
                ";".join(self._links),
                _RETRY_SECONDS,
            )

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        self._is_open = False
        await asyncio.gather(*(link.stop() for link in self._links.values()))
        tasks = [asyncio.create_task(link.unregister()) for link in self._links.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def update(self, addresses: Iterable[str]) -> None:
        """Use a new list of NameServers. The broker is not unregistered from removed ones; there it expires."""
        wanted = list(dict.fromkeys(addresses))
        for address in self._links.keys() - set(wanted):
            self._links.pop(address).cancel()
            self._answers.pop(address, None)
        for address in wanted:
            if address not in self._links:
                link = self._links[address] = _NameServerLink(self, address)
                if self._is_open:
                    link.start()

    @property
    def addresses(self) -> list[str]:
        return list(self._links)

    @property
    def registered(self) -> list[str]:
        """The NameServers whose last registration succeeded."""
        return [address for address, link in self._links.items() if link.is_registered]

    def register_soon(self, topic: TopicConfig | None = None) -> None:
        """Register a new or changed topic with all NameServers; all topics if none is given. Does not wait."""
        for link in self._links.values():
            link.wake(topic)

    async def wait_until_registered(self) -> None:
        """Return when all changes so far are registered with the NameServers that the broker is registered with.

        A slow NameServer is waited for no longer than the timeout of one request.
        """
        waiting = [
            asyncio.create_task(link.wait_until_registered()) for link in self._links.values() if link.is_registered
        ]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=_TOPIC_SECONDS)
            for task in late:
                task.cancel()


class _NameServerLink:
    """The registration with one NameServer."""

    def __init__(self, registrar: Registrar, address: str) -> None:
        self._registrar = registrar
        self._config = registrar.config
        self._table = registrar.topics
        self._requests = registrar.requests
        self._client = registrar.client
        self._clock = registrar.clock
        self.address = address
        self.is_registered = False
        # Set after the first attempt, successful or not.
        self.tried = asyncio.Event()
        # The master of the group according to the last response; always None for a master itself.
        self._master: str | None = None
        # Whether the NameServer supports light heartbeats, which came with 5.0. None while unknown.
        self._supports_heartbeats: bool | None = None
        # Whether a registration was ever sent, so that there may be something to unregister.
        self._has_sent = False
        # Whether the last registration announced light heartbeats.
        self._has_announced_heartbeats = False
        # Changes to register: single topics by name, or everything.
        self._changed_topics: set[str] = set()
        self._is_all_wanted = True
        self._wake_up = asyncio.Event()
        # Not before this time are all topics registered again because one has changed.
        self._paused_until = 0.0
        # Changes so far, and those of them whose registration has succeeded or failed.
        self._change_count = 0
        self._handled_count = 0
        self._handled = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    # The task

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
                log.exception("registration with NameServer %s failed unexpectedly, retrying", self.address)
                self._is_all_wanted = True
                await self._clock.sleep(_RETRY_SECONDS)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._send_heartbeats())
            due = self._clock.monotonic()
            while True:
                now = self._clock.monotonic()
                is_due = now >= due
                needs_all = bool(self._changed_topics) and not self._can_register_single_topics
                is_all_wanted = self._is_all_wanted or (needs_all and now >= self._paused_until)
                change_count = self._change_count
                if is_due or is_all_wanted:
                    is_forced = is_all_wanted or self._config.force_register or not self.is_registered
                    await self._register(tasks, is_forced=is_forced)
                    await self._set_handled(change_count)
                    due = self._clock.monotonic() + (self._period if self.is_registered else _RETRY_SECONDS)
                elif self._changed_topics and not needs_all:
                    await self._register_changed_topics()
                    await self._set_handled(change_count)
                await self._wait_until(min(due, self._paused_until) if self._changed_topics else due)

    @property
    def _can_register_single_topics(self) -> bool:
        """Whether a topic may be registered without the others.

        REGISTER_BROKER must contain all topics: a NameServer with deleteTopicWithBrokerRegistration drops those that it
        does not contain. Split registrations never do, so with them a single topic makes no difference. A NameServer
        that supports light heartbeats is of 5.x and supports REGISTER_TOPIC_IN_NAMESRV too.
        """
        return self._config.enable_split_registration or (
            self._config.enable_single_topic_register and self.is_registered and bool(self._supports_heartbeats)
        )

    @property
    def _period(self) -> float:
        return min(max(self._config.register_name_server_period, 10_000), 60_000) / 1000

    async def _wait_until(self, due: float) -> None:
        """Wait until `due`, or until there is something to register."""
        timer = asyncio.create_task(self._wake_up_after(due - self._clock.monotonic()))
        try:
            await self._wake_up.wait()
            self._wake_up.clear()
        finally:
            timer.cancel()

    async def _wake_up_after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._wake_up.set()

    async def _set_handled(self, change_count: int) -> None:
        async with self._handled:
            self._handled_count = change_count
            self._handled.notify_all()

    async def wait_until_registered(self) -> None:
        """Return when the changes so far are handled; at once during a pause because of many topics."""
        wanted = self._change_count
        if self._clock.monotonic() >= self._paused_until:
            async with self._handled:
                await self._handled.wait_for(lambda: self._handled_count >= wanted)

    def wake(self, topic: TopicConfig | None = None) -> None:
        """Register a topic, or everything, in the next iteration of `_work`."""
        self._change_count += 1
        if topic is None:
            self._is_all_wanted = True
        else:
            self._changed_topics.add(topic.topic_name)
        self._wake_up.set()

    # Registration

    async def _register(self, tasks: asyncio.TaskGroup, *, is_forced: bool) -> None:
        """Register all topics; unless `is_forced`, only if the NameServer has another version of them."""
        self._is_all_wanted = False
        self._changed_topics.clear()
        try:
            if self._supports_heartbeats is None:
                probe = tasks.create_task(self._probe())
                await asyncio.wait([probe], timeout=_PROBE_WAIT_SECONDS)
            if is_forced or await self._is_changed():
                await self._send_everything()
        except (KeroloxError, OSError) as error:
            self._failed(error)
        else:
            if not self.is_registered:
                log.info("registered with NameServer %s", self.address)
            self.is_registered = True
        finally:
            self.tried.set()

    async def _send_everything(self) -> None:
        for body in self._requests.everything():
            await self._send(body)
        topic_count = len(self._table.topics)
        if topic_count > _PROMPT_TOPICS_MAX:
            self._paused_until = self._clock.monotonic() + topic_count * _PAUSE_SECONDS_PER_TOPIC

    async def _register_changed_topics(self) -> None:
        names, self._changed_topics = self._changed_topics, set()
        try:
            if self._config.enable_single_topic_register and self._supports_heartbeats:
                for request, body in self._requests.single(sorted(names)):
                    await self._client.call(self.address, request, body, timeout_seconds=_TOPIC_SECONDS)
            else:
                await self._send(self._requests.some(names))
        except (KeroloxError, OSError) as error:
            self._failed(error)
            # The NameServer may have restarted without its routes, so register everything.
            self.wake()

    async def _send(self, body: bytes) -> None:
        self._has_announced_heartbeats = bool(self._supports_heartbeats)
        request = self._requests.registration(body, heartbeats=self._has_announced_heartbeats)
        seconds = self._config.register_broker_timeout_mills / 1000
        self._has_sent = True
        answer = await self._client.call(self.address, request, body, timeout_seconds=seconds)
        # A response without fields has no header.
        registered = answer.header or BrokerRegistered()
        self._master = registered.master_addr
        if self._config.broker_id != MASTER_ID:
            self._registrar.note_answer(self.address, registered)
        if answer.body:
            try:
                self._table.mark_ordered(KVTable.decode(answer.body).table)
            except ProtocolError as error:
                log.warning("NameServer %s sent an unreadable order configuration: %s", self.address, error)

    async def _is_changed(self) -> bool:
        request, body = self._requests.version()
        return (await self._client.call(self.address, request, body)).fields.changed

    def _failed(self, error: Exception) -> None:
        # A warning only for the first failure, not for every retry.
        level = logging.WARNING if self.is_registered or not self.tried.is_set() else logging.DEBUG
        log.log(level, "could not register with NameServer %s: %s", self.address, error)
        self.is_registered = False

    async def unregister(self) -> None:
        if not self._has_sent:
            return
        try:
            await self._client.call(self.address, self._requests.unregistration(), timeout_seconds=_CLOSE_SECONDS)
        except (KeroloxError, OSError) as error:
            log.warning("could not unregister from NameServer %s: %s", self.address, error)

    # Light heartbeats

    async def _probe(self) -> None:
        """Find out whether the NameServer supports light heartbeats, by sending one."""
        try:
            await self._client.call(self.address, self._requests.heartbeat(), timeout_seconds=_PROBE_SECONDS)
            is_supported = True
        except AnswerError as error:
            is_supported = error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        except (KeroloxError, OSError):
            if not self._client.is_connected(self.address):
                return
            is_supported = False
        self._supports_heartbeats = is_supported
        if is_supported and self._has_sent and not self._has_announced_heartbeats:
            # The response came after a registration that did not announce heartbeats: register again.
            self.wake()

    async def _send_heartbeats(self) -> None:
        while True:
            await self._clock.sleep(self._config.broker_heartbeat_interval / 1000)
            if not self.is_registered:
                continue
            if not self._client.is_connected(self.address):
                # The NameServer may come back as another version, or without its routes.
                self._supports_heartbeats = None
                self._failed(RemotingError("the connection is lost"))
                self.wake()
            elif self._supports_heartbeats:
                try:
                    await self._client.call_oneway(self.address, self._requests.heartbeat())
                except (RemotingError, OSError) as error:
                    self._failed(error)
                    self.wake()
                    continue
                if self._config.broker_id != MASTER_ID and await self._has_other_master():
                    # Only the response to a registration has both of its addresses.
                    self.wake()

    async def _has_other_master(self) -> bool:
        """Whether the group has another master than at the last registration, or none any more."""
        try:
            reply = await self._client.call(self.address, self._requests.members())
            group = BrokerMemberGroupBody.decode(reply.body).broker_member_group
        except (KeroloxError, OSError) as error:
            log.debug("NameServer %s did not return the members of the group: %s", self.address, error)
            return False
        return group is not None and group.broker_addrs.get(MASTER_ID) != self._master
