"""Compares the brokers, topics and routes of several NameServers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kerolox.admin.client import AdminClient
from kerolox.admin.targets import Servers
from kerolox.client.options import Options
from kerolox.client.session.topic_routes import TopicRoute
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.routes import ClusterInfo

# Routes are compared for at most this many topics.
TOPICS_MAX = 500


@dataclass(slots=True)
class View:
    """The data of one NameServer, or the error if it did not respond."""

    address: str
    # `broker-a/0 at 127.0.0.1:10911`
    brokers: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    # Topic → `broker-a: 8 to read, 8 to write, permission 6`.
    routes: dict[str, set[str]] = field(default_factory=dict)
    info: ClusterInfo | None = None
    error: KeroloxError | None = None


def alone(options: Options, address: str) -> Options:
    """Return the options of a client that uses only this NameServer."""
    return Options(
        namesrv_addr=address,
        tls=options.tls,
        access_key=options.access_key,
        secret_key=options.secret_key,
        security_token=options.security_token,
    )


async def views(clients: Mapping[str, AdminClient]) -> list[View]:
    """Return the view of each NameServer; each client uses one. Routes are fetched only if there are several."""
    found = await Servers.gather(clients.items(), lambda it: _view(*it))
    known = [view for view in found if view.error is None]
    if len(known) > 1:
        topics = sorted({topic for view in known for topic in view.topics})
        for view in known:
            await _add_routes(view, clients[view.address], [it for it in topics if it in view.topics])
    return found


def differences(views: Iterable[View]) -> list[str]:
    """Return a sentence for each difference between the NameServers."""
    views = list(views)
    found = _missing("broker", {view.address: view.brokers for view in views})
    found += _missing("topic", {view.address: view.topics for view in views})
    topics = sorted(set.intersection(*(set(view.routes) for view in views))) if views else []
    for topic in topics:
        routes = {view.address: view.routes[topic] for view in views}
        if len({frozenset(route) for route in routes.values()}) > 1:
            details = "; ".join(f"{address} says {', '.join(sorted(route))}" for address, route in routes.items())
            found.append(f"The routes of topic {topic} differ: {details}.")
    return found


def _missing(kind: str, names_of: Mapping[str, set[str]]) -> list[str]:
    """Return a sentence for each name that some NameServers list and others do not."""
    found = []
    for name in sorted(set().union(*names_of.values())):
        having = [address for address, names in names_of.items() if name in names]
        lacking = [address for address, names in names_of.items() if name not in names]
        if lacking:
            found.append(f"{', '.join(having)} lists {kind} {name}, and {', '.join(lacking)} does not.")
    return found


async def _view(address: str, admin: AdminClient) -> View:
    view = View(address)
    try:
        view.info = await admin.cluster.info()
        view.topics = set(await admin.topics.names())
    except KeroloxError as error:
        view.error = error
        return view
    view.brokers = {
        f"{name}/{number} at {at}"
        for name, data in view.info.broker_addr_table.items()
        for number, at in data.broker_addrs.items()
    }
    return view


async def _add_routes(view: View, admin: AdminClient, topics: list[str]) -> None:
    async def ask(topic: str) -> TopicRoute | None:
        try:
            return await admin.topics.route(topic)
        except KeroloxError:
            # A name without queues, such as that of a cluster, or a topic that has just been deleted.
            return None

    compared = topics[:TOPICS_MAX]
    for topic, route in zip(compared, await Servers.gather(compared, ask), strict=True):
        if route is not None:
            view.routes[topic] = {
                f"{it.broker_name}: {it.read_queue_nums} to read, {it.write_queue_nums} to write, permission {it.perm}"
                for it in route.data.queue_datas
            }
