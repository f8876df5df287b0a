"""The application: which page answers which address, and what every page has in common."""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from kerolox.dashboard import (
    charts,
    cluster,
    dead_letters,
    entering,
    groups,
    messages,
    nameservers,
    pipelines,
    sending,
    topics,
)
from kerolox.dashboard.guard import SESSION_KEY, Guard
from kerolox.dashboard.page import Desk, Handler, Page
from kerolox.dashboard.sentences import Refused, sentence, status
from kerolox.errors import KeroloxError

log = logging.getLogger(__name__)

FORM_SIZE_MAX = 64 * 1024
MESSAGE_FORM_SIZE_MAX = 4 * 1024 * 1024
_FIELDS_MAX = 1000
_FORM_SECONDS = 30.0

PAGES: dict[str, Handler] = {
    "/": cluster.cluster_page,
    "/broker": cluster.broker_page,
    "/nameservers": nameservers.nameservers_page,
    "/topics": topics.topics_page,
    "/topic": topics.topic_page,
    "/groups": groups.groups_page,
    "/group": groups.group_page,
    "/member": groups.member_page,
    "/messages": messages.messages_page,
    "/message": messages.message_page,
    "/dead-letters": dead_letters.dead_letters_page,
    "/dead-letters/export": dead_letters.export,
    "/charts": charts.charts_page,
    "/charts/data.json": charts.data,
    "/pipelines": pipelines.pipelines_page,
    "/login": entering.login_page,
}
ACTIONS: dict[str, Handler] = {
    "/login": entering.login,
    "/logout": entering.logout,
    "/topics/create": topics.create,
    "/topic/change": topics.change,
    "/topic/delete": topics.delete,
    "/topic/send": sending.send,
    "/group/reset": groups.reset,
    "/message/resend": messages.resend,
    "/message/hand": messages.hand,
    "/dead-letters/act": dead_letters.act,
}
# What a reader may do, too.
_HARMLESS = ("/login", "/logout")
_TOLD = ("name", "topic", "group", "place", "where", "action")
_FORM_SIZES = {"/topic/send": MESSAGE_FORM_SIZE_MAX}


def application(desk: Desk) -> ASGIApp:
    """Returns the whole, with what stands before it."""
    routes: list[Route | Mount] = [Route(path, _shown(desk, page), methods=["GET"]) for path, page in PAGES.items()]
    routes += [Route(path, _done(desk, path, action), methods=["POST"]) for path, action in ACTIONS.items()]
    routes.append(Mount("/static", StaticFiles(packages=[("kerolox.dashboard", "static")])))

    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        page = Page(request, desk, request.scope.get(SESSION_KEY))
        return _problem(page, "There is no such page.", error.status_code)

    app = Starlette(routes=routes, exception_handlers={404: told, 405: told})
    return Guard(app, desk)


def _shown(desk: Desk, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await _answer(Page(request, desk, request.scope.get(SESSION_KEY)), handler)

    return endpoint


def _done(desk: Desk, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    size_max = _FORM_SIZES.get(path, FORM_SIZE_MAX)

    async def checked(page: Page) -> Response:
        page.form = await _form(page.request, size_max)
        if not hmac.compare_digest(page.field("token").encode(), page.token.encode()):
            raise Refused("this form is too old: go back, load the page again and repeat it", 403)
        if page.is_reader and path not in _HARMLESS:
            raise Refused("this dashboard is read-only for you", 403)
        answer = await handler(page)
        if path not in _HARMLESS:
            log.info("%s by %s%s", path, page.session.user if page.session else "somebody here", _about(page))
        return answer

    async def endpoint(request: Request) -> Response:
        return await _answer(Page(request, desk, request.scope.get(SESSION_KEY)), checked)

    return endpoint


def _about(page: Page) -> str:
    """Returns what a form was about, for those who want to know later who did it."""
    told = {name: page.field(name)[:200] for name in _TOLD if page.field(name)}
    return "".join(f", {name} {value!r}" for name, value in told.items())


async def _answer(page: Page, handler: Handler) -> Response:
    """Returns what the handler gives; whatever goes wrong is a sentence on a page."""
    try:
        return await handler(page)
    except Refused as refused:
        return _problem(page, refused.sentence, refused.status)
    except KeroloxError as error:
        return _problem(page, sentence(error), status(error))
    except ClientDisconnect:
        return PlainTextResponse("", 400)
    except Exception:
        log.exception("page %s failed", page.request.url.path)
        return _problem(page, "The dashboard failed at this; its log says why.", 500)


def _problem(page: Page, said: str, status: int) -> Response:
    if page.request.url.path.endswith(".json"):
        return PlainTextResponse(said + "\n", status)
    return page.show("problem.html", status, said=said)


async def _form(request: Request, size_max: int) -> dict[str, list[str]]:
    """Returns the fields of a form, of which there are no more bytes, fields and seconds than allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(f"a form of type {kind[:60]!r}, and application/x-www-form-urlencoded is taken", 415)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > size_max:
                    raise Refused(f"a form of more than {size_max} bytes, which is the most allowed", 413)
                parts.append(part)
    except TimeoutError:
        raise Refused(f"the form did not come within {_FORM_SECONDS:.0f} s", 408) from None
    try:
        return parse_qs(b"".join(parts).decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise Refused(f"this is no form, or has more than {_FIELDS_MAX} fields") from None
