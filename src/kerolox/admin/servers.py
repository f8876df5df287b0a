"""Whom an operator's question goes to: NameServers, and brokers by name, by address, by cluster or by topic."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from kerolox.admin.errors import PartlyDone, UnknownBroker, UnknownCluster
from kerolox.client.calls import LANGUAGE
from kerolox.client.lifecycle import Lifecycle
from kerolox.client.names import retry_topic
from kerolox.client.options import Options
from kerolox.client.routes import MASTER_ID, TopicRoute
from kerolox.client.session import Session
from kerolox.errors import AnswerError, KeroloxError, TopicNotFound
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo
from kerolox.wire.header import Header, Request
from kerolox.wire.headers.broker import GetSystemTopicListFromBroker
from kerolox.wire.headers.namesrv import GetBrokerClusterInfo
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)
R = TypeVar("R")
T = TypeVar("T")

# So many questions are under way at the same time.
_ASKED_AT_ONCE = 32


class Servers:
    def __init__(self, options: Options, timeout_seconds: float) -> None:
        self.options = options
        self.timeout_seconds = timeout_seconds
        self.life = Lifecycle("admin client")
        self._session: Session | None = None

    async def start(self) -> None:
        self.life.begin()
        self._session = await Session.acquire(self.options)
        self.life.begun()

    async def close(self) -> None:
        if self.life.end() and self._session is not None:
            await self._session.release()

    @property
    def session(self) -> Session:
        self.life.check()
        assert self._session is not None
        return self._session

    # Asking

    async def call(
        self,
        address: str,
        request: Request[A],
        body: bytes = b"",
        *,
        timeout_seconds: float | None = None,
        language: str = LANGUAGE,
    ) -> Reply[A]:
        seconds = timeout_seconds or self.timeout_seconds
        return await self.session.call(address, request, body, timeout_seconds=seconds, language=language)

    async def ask_name_server(self, request: Request[A], body: bytes = b"") -> Reply[A]:
        """Returns the answer of the first NameServer that gives one."""

        async def ask(address: str, seconds: float) -> Reply[A]:
            return await self.call(address, request, body, timeout_seconds=seconds)

        return await self.session.name_servers.ask(ask, timeout_seconds=self.timeout_seconds)

    async def ask_name_servers(self, request: Request[A], body: bytes = b"") -> dict[str, Reply[A]]:
        """Returns the answers of all NameServers by address; PartlyDone if one fails."""
        addresses = sorted(self.session.name_servers.addresses)
        return await self.each(
            request.code.name, dict(zip(addresses, addresses, strict=True)), lambda it: self.call(it, request, body)
        )

    async def ask_brokers(
        self, brokers: Mapping[str, str], request: Request[A], body: bytes = b""
    ) -> dict[str, Reply[A]]:
        """Returns the answers of brokers by name; PartlyDone if one fails."""
        return await self.each(request.code.name, brokers, lambda address: self.call(address, request, body))

    async def each(self, what: str, targets: Mapping[str, T], ask: Callable[[T], Awaitable[R]]) -> dict[str, R]:
        """Returns what came of asking each target, by name.

        PartlyDone if some fail; where all fail for the same reason, that.
        """
        done: dict[str, R] = {}
        failed: dict[str, KeroloxError] = {}

        async def one(name: str) -> None:
            try:
                done[name] = await ask(targets[name])
            except KeroloxError as error:
                failed[name] = error

        await self.gathered(targets, one)
        if not failed:
            return {name: done[name] for name in targets}
        if not done and len({_reason(error) for error in failed.values()}) == 1:
            raise next(iter(failed.values()))
        raise PartlyDone(what, done, failed)

    @staticmethod
    async def gathered(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
        """Returns what came of asking about each, in order; some at a time. The first to fail ends it."""
        gate = asyncio.Semaphore(_ASKED_AT_ONCE)

        async def one(item: T) -> R:
            async with gate:
                return await ask(item)

        tasks = [asyncio.create_task(one(item)) for item in items]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def first(self, brokers: Mapping[str, str], ask: Callable[[str], Awaitable[R]]) -> R:
        """Returns the answer of the first broker that gives one; if none does, what the last one said."""
        failure: KeroloxError = UnknownBroker("there is no living broker to ask")
        for address in brokers.values():
            try:
                return await ask(address)
            except KeroloxError as error:
                failure = error
        raise failure

    async def version(self, address: str) -> int:
        """Returns which release a broker is of, as it says with every answer."""
        request = GetSystemTopicListFromBroker()
        return (await self.session.ask(address, request, timeout_seconds=self.timeout_seconds)).version

    # Finding

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo.decode((await self.ask_name_server(GetBrokerClusterInfo())).body)

    async def masters(self, *, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Returns the addresses of masters by the broker's name: of one broker, or of a cluster.

        A broker is given by name or by address. Where neither is given, it is the one cluster there is.
        """
        info = await self.cluster_info()
        if broker is not None:
            return dict([_master_of(info, broker)])
        names = info.cluster_addr_table.get(the_cluster(info, cluster), [])
        masters = {name: info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table}
        found = {name: data.broker_addrs[MASTER_ID] for name, data in masters.items() if MASTER_ID in data.broker_addrs}
        if not found:
            raise UnknownBroker(f"cluster {the_cluster(info, cluster)!r} has no living master")
        return found

    async def all_masters(self) -> dict[str, str]:
        """Returns the masters of all clusters."""
        brokers = (await self.cluster_info()).broker_addr_table
        return {
            name: data.broker_addrs[MASTER_ID]
            for name, data in sorted(brokers.items())
            if MASTER_ID in data.broker_addrs
        }

    async def address(self, broker: str) -> str:
        """Returns where a broker is that is given by name or by address."""
        if _is_address(broker):
            return broker
        return _master_of(await self.cluster_info(), broker)[1]

    async def route(self, topic: str) -> TopicRoute:
        """Returns the route as it is now; TopicNotFound if there is none."""
        found = await self.session.routes.refresh(topic)
        if found is None:
            raise TopicNotFound(f"no NameServer has a route of topic {topic!r}")
        return found

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Returns the brokers of a topic by name: each one's master, or else a slave."""
        return {name: _best(members) for name, members in (await self.route(topic)).brokers.items() if members}

    async def brokers_of_group(self, group: str) -> dict[str, str]:
        """Returns the brokers that a group's consumers have been at; all, if it was never online."""
        try:
            return await self.brokers_of(retry_topic(group))
        except TopicNotFound:
            return await self.all_masters()


def the_cluster(info: ClusterInfo, cluster: str | None) -> str:
    """Returns the cluster that is meant; UnknownCluster if it is not known which."""
    known = ", ".join(sorted(info.cluster_addr_table)) or "none"
    if cluster is None:
        if len(info.cluster_addr_table) != 1:
            raise UnknownCluster(f"which cluster is meant? Known: {known}")
        return next(iter(info.cluster_addr_table))
    if cluster not in info.cluster_addr_table:
        raise UnknownCluster(f"cluster {cluster!r} is not known. Known: {known}")
    return cluster


def _is_address(broker: str) -> bool:
    return ":" in broker


def _master_of(info: ClusterInfo, broker: str) -> tuple[str, str]:
    if _is_address(broker):
        return broker_at(info, broker) or broker, broker
    data = info.broker_addr_table.get(broker)
    if data is None:
        known = ", ".join(sorted(info.broker_addr_table)) or "none"
        raise UnknownBroker(f"broker {broker!r} is not known. Known: {known}")
    if MASTER_ID not in data.broker_addrs:
        raise UnknownBroker(f"broker {broker!r} has no living master, only {_listed(data)}")
    return broker, data.broker_addrs[MASTER_ID]


def broker_at(info: ClusterInfo, address: str) -> str | None:
    """Returns the name of the broker at an address."""
    for name, data in info.broker_addr_table.items():
        if address in data.broker_addrs.values():
            return name
    return None


def _listed(data: BrokerData) -> str:
    return ", ".join(f"{broker_id}: {address}" for broker_id, address in sorted(data.broker_addrs.items()))


def _best(members: Mapping[int, str]) -> str:
    return members[min(members)]


def _reason(error: KeroloxError) -> object:
    return error.code if isinstance(error, AnswerError) else type(error)
