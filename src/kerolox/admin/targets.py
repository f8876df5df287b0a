"""The targets of admin requests: NameServers, and brokers by name, address, cluster or topic."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from kerolox.admin.errors import PartlyDone, UnknownBroker, UnknownCluster
from kerolox.client.options import Options
from kerolox.client.resource_names import retry_topic
from kerolox.client.session.lifecycle import Lifecycle
from kerolox.client.session.requests import LANGUAGE
from kerolox.client.session.session import Session
from kerolox.client.session.topic_routes import MASTER_ID, TopicRoute
from kerolox.errors import AnswerError, KeroloxError, TopicNotFound
from kerolox.wire.bodies.routes import BrokerData, ClusterInfo
from kerolox.wire.header import Header, Request
from kerolox.wire.headers.broker import GetSystemTopicListFromBroker
from kerolox.wire.headers.namesrv import GetBrokerClusterInfo
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)
R = TypeVar("R")
T = TypeVar("T")

_REQUESTS_IN_FLIGHT_MAX = 32


class Servers:
    """Sends requests to one or several servers, and resolves names to addresses."""

    def __init__(self, options: Options, timeout_seconds: float) -> None:
        self.options = options
        self.timeout_seconds = timeout_seconds
        self._lifecycle = Lifecycle("admin client")
        self._session: Session | None = None

    async def start(self) -> None:
        self._lifecycle.set_starting()
        self._session = await Session.acquire(self.options)
        self._lifecycle.set_running()

    async def close(self) -> None:
        if self._lifecycle.set_closed() and self._session is not None:
            await self._session.release()

    @property
    def session(self) -> Session:
        self._lifecycle.check()
        assert self._session is not None
        return self._session

    # Requests

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
        """Return the response of the first NameServer that responds."""

        async def ask(address: str, seconds: float) -> Reply[A]:
            return await self.call(address, request, body, timeout_seconds=seconds)

        return await self.session.name_servers.ask(ask, timeout_seconds=self.timeout_seconds)

    async def ask_name_servers(self, request: Request[A], body: bytes = b"") -> dict[str, Reply[A]]:
        """Return address → response of all NameServers; raise PartlyDone if one fails."""
        addresses = sorted(self.session.name_servers.addresses)
        return await self.each(
            request.code.name, dict(zip(addresses, addresses, strict=True)), lambda it: self.call(it, request, body)
        )

    async def ask_brokers(
        self, brokers: Mapping[str, str], request: Request[A], body: bytes = b""
    ) -> dict[str, Reply[A]]:
        """Return name → response of these brokers; raise PartlyDone if one fails."""
        return await self.each(request.code.name, brokers, lambda address: self.call(address, request, body))

    async def each(self, what: str, targets: Mapping[str, T], ask: Callable[[T], Awaitable[R]]) -> dict[str, R]:
        """Call `ask` for each target and return name → result.

        Raises PartlyDone if some fail; if all fail for the same reason, the error of one of them.
        """
        done: dict[str, R] = {}
        failed: dict[str, KeroloxError] = {}

        async def one(name: str) -> None:
            try:
                done[name] = await ask(targets[name])
            except KeroloxError as error:
                failed[name] = error

        await self.gather(targets, one)
        if not failed:
            return {name: done[name] for name in targets}
        if not done and len({_reason(error) for error in failed.values()}) == 1:
            raise next(iter(failed.values()))
        raise PartlyDone(what, done, failed)

    @staticmethod
    async def gather(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
        """Call `ask` for each item, a limited number concurrently, and return the results in order.

        The first failure is raised, and cancels the others.
        """
        slots = asyncio.Semaphore(_REQUESTS_IN_FLIGHT_MAX)

        async def one(item: T) -> R:
            async with slots:
                return await ask(item)

        tasks = [asyncio.create_task(one(item)) for item in items]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def first(self, brokers: Mapping[str, str], ask: Callable[[str], Awaitable[R]]) -> R:
        """Return the result of the first broker that succeeds; raise the error of the last one if none does."""
        failure: KeroloxError = UnknownBroker("there is no living broker to ask")
        for address in brokers.values():
            try:
                return await ask(address)
            except KeroloxError as error:
                failure = error
        raise failure

    async def version(self, address: str) -> int:
        """Return the version of a broker, which is in every response."""
        request = GetSystemTopicListFromBroker()
        return (await self.session.ask(address, request, timeout_seconds=self.timeout_seconds)).version

    # Addresses

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo.decode((await self.ask_name_server(GetBrokerClusterInfo())).body)

    async def masters(self, *, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        """Return broker name → address of the master, for one broker or all of a cluster.

        A broker is given by name or address. An address is used as the name too, without asking a NameServer, which
        may be down. If neither is given, there must be only one cluster.
        """
        if broker is not None and _is_address(broker):
            return {broker: broker}
        info = await self.cluster_info()
        if broker is not None:
            return {broker: _master_of(info, broker)}
        names = info.cluster_addr_table.get(the_cluster(info, cluster), [])
        masters = {name: info.broker_addr_table[name] for name in sorted(names) if name in info.broker_addr_table}
        found = {name: data.broker_addrs[MASTER_ID] for name, data in masters.items() if MASTER_ID in data.broker_addrs}
        if not found:
            raise UnknownBroker(f"cluster {the_cluster(info, cluster)!r} has no living master")
        return found

    async def all_masters(self) -> dict[str, str]:
        """Return broker name → address of the masters of all clusters."""
        brokers = (await self.cluster_info()).broker_addr_table
        return {
            name: data.broker_addrs[MASTER_ID]
            for name, data in sorted(brokers.items())
            if MASTER_ID in data.broker_addrs
        }

    async def address(self, broker: str) -> str:
        """Return the address of a broker, which is given by name or address."""
        if _is_address(broker):
            return broker
        return _master_of(await self.cluster_info(), broker)

    async def readable_address(self, broker: str) -> str:
        """Return the address of a broker to read messages from: of the master or, if there is none, of a slave."""
        if _is_address(broker):
            return broker
        info = await self.cluster_info()
        data = info.broker_addr_table.get(broker)
        return _master_or_slave(data.broker_addrs) if data and data.broker_addrs else _master_of(info, broker)

    async def name(self, broker: str) -> str:
        """Return the name of a broker, which is given by name or address; the address if no NameServer lists it."""
        if not _is_address(broker):
            return broker
        return broker_at(await self.cluster_info(), broker) or broker

    async def route(self, topic: str) -> TopicRoute:
        """Return the current route of a topic; raise TopicNotFound if there is none."""
        found = await self.session.routes.refresh(topic)
        if found is None:
            raise TopicNotFound(f"no NameServer has a route of topic {topic!r}")
        return found

    async def brokers_of(self, topic: str, *, cluster: str | None = None) -> dict[str, str]:
        """Return broker name → address of the brokers of a topic: of the master or, if there is none, of a slave.

        With `cluster`, only brokers of that cluster; raises UnknownCluster if the topic has none there.
        """
        brokers = (await self.route(topic)).data.broker_datas
        selected = [data for data in brokers if cluster is None or data.cluster == cluster]
        if brokers and not selected:
            raise UnknownCluster(f"topic {topic!r} is not in cluster {cluster!r}")
        return {data.broker_name: _master_or_slave(data.broker_addrs) for data in selected if data.broker_addrs}

    async def brokers_of_group(self, group: str) -> dict[str, str]:
        """Return the brokers of a group's retry topic; all masters if the group was never online."""
        try:
            return await self.brokers_of(retry_topic(group))
        except TopicNotFound:
            return await self.all_masters()


def the_cluster(info: ClusterInfo, cluster: str | None) -> str:
    """Return `cluster`, or the only cluster if it is None; raise UnknownCluster if it is unknown or ambiguous."""
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


def _master_of(info: ClusterInfo, broker: str) -> str:
    data = info.broker_addr_table.get(broker)
    if data is None:
        known = ", ".join(sorted(info.broker_addr_table)) or "none"
        raise UnknownBroker(f"broker {broker!r} is not known. Known: {known}")
    if MASTER_ID not in data.broker_addrs:
        raise UnknownBroker(f"broker {broker!r} has no living master, only {_listed(data)}")
    return data.broker_addrs[MASTER_ID]


def broker_at(info: ClusterInfo, address: str) -> str | None:
    """Return the name of the broker at an address."""
    for name, data in info.broker_addr_table.items():
        if address in data.broker_addrs.values():
            return name
    return None


def _listed(data: BrokerData) -> str:
    return ", ".join(f"{broker_id}: {address}" for broker_id, address in sorted(data.broker_addrs.items()))


def _master_or_slave(members: Mapping[int, str]) -> str:
    return members[min(members)]


def _reason(error: KeroloxError) -> object:
    return error.code if isinstance(error, AnswerError) else type(error)
