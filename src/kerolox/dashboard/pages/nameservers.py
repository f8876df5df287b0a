"""The page of NameServers, with the differences between their brokers, topics and routes."""

from contextlib import AsyncExitStack

from starlette.responses import Response

from kerolox.admin import AdminClient, PartlyDone
from kerolox.admin.consistency import TOPICS_MAX, alone, differences, views
from kerolox.dashboard.http.errors import error_text
from kerolox.dashboard.http.page import Page

# Further differences are only counted.
DIFFERENCES_MAX = 100
SERVERS_MAX = 16


async def nameservers_page(page: Page) -> Response:
    addresses = (await _addresses(page.admin))[:SERVERS_MAX]
    options = page.admin.options
    async with AsyncExitStack() as stack:
        clients = {
            address: await stack.enter_async_context(
                AdminClient(options=alone(options, address), timeout_seconds=page.context.options.timeout_seconds)
            )
            for address in addresses
        }
        seen = await views(clients)
    known = [view for view in seen if view.error is None]
    topics = {topic for view in known for topic in view.topics}
    found = differences(known)
    return page.render(
        "nameservers.html",
        views=seen,
        problems={view.address: error_text(view.error) for view in seen if view.error is not None},
        known=known,
        topic_count=len(topics),
        is_partial=len(topics) > TOPICS_MAX,
        topics_max=TOPICS_MAX,
        differences=found[:DIFFERENCES_MAX],
        more=max(0, len(found) - DIFFERENCES_MAX),
    )


async def _addresses(admin: AdminClient) -> list[str]:
    if admin.options.name_servers:
        return sorted(admin.options.name_servers)
    # The client fetched the addresses from a web server, and knows them after its first request.
    try:
        return sorted(await admin.configuration.name_servers())
    except PartlyDone as partly:
        return sorted({*partly.done, *partly.failed})
