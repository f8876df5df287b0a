"""NameServers, and whether they agree: on brokers, on topics, and on where topics are."""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from starlette.responses import Response

from kerolox.admin import AdminClient, PartlyDone
from kerolox.client.options import Options
from kerolox.client.routes import TopicRoute
from kerolox.dashboard.lists import gathered
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import sentence
from kerolox.errors import KeroloxError

# Each is asked about so many topics, and so many differences are told.
TOPICS_MAX = 500
DIFFERENCES_MAX = 100
SERVERS_MAX = 16


@dataclass(slots=True)
class View:
    """What one NameServer says; or why it says nothing."""

    address: str
    # `broker-a/0 at 127.0.0.1:10911`
    brokers: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    # By topic, `broker-a: 8 to read, 8 to write, permission 6`.
    routes: dict[str, set[str]] = field(default_factory=dict)
    problem: str | None = None


async def nameservers_page(page: Page) -> Response:
    addresses = (await _addresses(page.admin))[:SERVERS_MAX]
    options = page.admin.options
    async with AsyncExitStack() as stack:
        clients = {
            address: await stack.enter_async_context(
                AdminClient(options=_alone(options, address), timeout_seconds=page.desk.options.timeout_seconds)
            )
            for address in addresses
        }
        views = await gathered(clients.items(), lambda it: _view(*it))
        known = [view for view in views if view.problem is None]
        topics = sorted({topic for view in known for topic in view.topics})
        if len(known) > 1:
            for view in known:
                await _add_routes(view, clients[view.address], [it for it in topics if it in view.topics])
    found = differences(known)
    return page.show(
        "nameservers.html",
        views=views,
        known=known,
        topic_count=len(topics),
        is_partial=len(topics) > TOPICS_MAX,
        topics_max=TOPICS_MAX,
        differences=found[:DIFFERENCES_MAX],
        more=max(0, len(found) - DIFFERENCES_MAX),
    )


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


async def _addresses(admin: AdminClient) -> list[str]:
    if admin.options.name_servers:
        return sorted(admin.options.name_servers)
    # They were asked for at an address on the web; who answers for them knows who they are.
    try:
        return sorted(await admin.configuration.name_servers())
    except PartlyDone as partly:
        return sorted({*partly.done, *partly.failed})


def _alone(options: Options, address: str) -> Options:
    return Options(
        namesrv_addr=address,
        tls=options.tls,
        access_key=options.access_key,
        secret_key=options.secret_key,
        security_token=options.security_token,
    )


async def _view(address: str, admin: AdminClient) -> View:
    view = View(address)
    try:
        info = await admin.cluster.info()
        view.topics = set(await admin.topics.names())
    except KeroloxError as error:
        view.problem = sentence(error)
        return view
    view.brokers = {
        f"{name}/{number} at {at}"
        for name, data in info.broker_addr_table.items()
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
    for topic, route in zip(wanted, await gathered(wanted, ask), strict=True):
        if route is not None:
            view.routes[topic] = {
                f"{it.broker_name}: {it.read_queue_nums} to read, {it.write_queue_nums} to write, permission {it.perm}"
                for it in route.data.queue_datas
            }
