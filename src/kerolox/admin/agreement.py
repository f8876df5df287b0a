"""Whether NameServers agree: on brokers, on topics, and on where topics are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kerolox.admin.client import AdminClient
from kerolox.admin.servers import Servers
from kerolox.client.options import Options
from kerolox.client.routes import TopicRoute
from kerolox.errors import KeroloxError
from kerolox.wire.bodies.routes import ClusterInfo

# Each is asked about so many topics.
TOPICS_MAX = 500


@dataclass(slots=True)
class View:
    """What one NameServer says; or why it says nothing."""

    address: str
    # `broker-a/0 at 127.0.0.1:10911`
    brokers: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    # By topic, `broker-a: 8 to read, 8 to write, permission 6`.
    routes: dict[str, set[str]] = field(default_factory=dict)
    info: ClusterInfo | None = None
    error: KeroloxError | None = None


def alone(options: Options, address: str) -> Options:
    """Returns the options of a client that asks this NameServer and no other."""
    return Options(
        namesrv_addr=address,
        tls=options.tls,
        access_key=options.access_key,
        secret_key=options.secret_key,
        security_token=options.security_token,
    )


async def views(clients: Mapping[str, AdminClient]) -> list[View]:
    """Returns what each NameServer says; each client asks but one. Of one alone no routes are asked for."""
    found = await Servers.gathered(clients.items(), lambda it: _view(*it))
    known = [view for view in found if view.error is None]
    if len(known) > 1:
        topics = sorted({topic for view in known for topic in view.topics})
        for view in known:
            await _add_routes(view, clients[view.address], [it for it in topics if it in view.topics])
    return found


def differences(views: Iterable[View]) -> list[str]:
    """Returns a sentence for each thing that one NameServer says and another does not."""
    views = list(views)
    found = _lone("broker", {view.address: view.brokers for view in views})
    found += _lone("topic", {view.address: view.topics for view in views})
    topics = sorted(set.intersection(*(set(view.routes) for view in views))) if views else []
    for topic in topics:
        routes = {view.address: view.routes[topic] for view in views}
        if len({frozenset(route) for route in routes.values()}) > 1:
            told = "; ".join(f"{address} says {', '.join(sorted(route))}" for address, route in routes.items())
            found.append(f"The routes of topic {topic} differ: {told}.")
    return found


def _lone(kind: str, said: Mapping[str, set[str]]) -> list[str]:
    found = []
    for name in sorted(set().union(*said.values())):
        having = [address for address, names in said.items() if name in names]
        lacking = [address for address, names in said.items() if name not in names]
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
            # A name without queues, such as that of a cluster; or one that is gone by now.
            return None

    wanted = topics[:TOPICS_MAX]
    for topic, route in zip(wanted, await Servers.gathered(wanted, ask), strict=True):
        if route is not None:
            view.routes[topic] = {
                f"{it.broker_name}: {it.read_queue_nums} to read, {it.write_queue_nums} to write, permission {it.perm}"
                for it in route.data.queue_datas
            }
