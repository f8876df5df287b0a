"""The ASGI application: routes, form handling and error pages."""

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

from kerolox.dashboard.http import login
from kerolox.dashboard.http.errors import RequestRefused, error_text, http_status
from kerolox.dashboard.http.page import DashboardContext, Handler, Page
from kerolox.dashboard.http.security import SESSION_KEY, SecurityMiddleware
from kerolox.dashboard.pages import (
    charts,
    cluster,
    dead_letters,
    groups,
    messages,
    nameservers,
    pipelines,
    send,
    topics,
)
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
    "/login": login.login_page,
}
ACTIONS: dict[str, Handler] = {
    "/login": login.login,
    "/logout": login.logout,
    "/topics/create": topics.create,
    "/topic/change": topics.change,
    "/topic/delete": topics.delete,
    "/topic/send": send.send,
    "/group/reset": groups.reset,
    "/message/resend": messages.resend,
    "/message/hand": messages.consume_now,
    "/dead-letters/act": dead_letters.act,
}
# Actions that are allowed to read-only users, and not logged here.
_LOGIN_ACTIONS = ("/login", "/logout")
# Form fields that are logged with an action.
_LOGGED_FIELDS = ("name", "topic", "group", "place", "where", "action")
_FORM_SIZES = {"/topic/send": MESSAGE_FORM_SIZE_MAX}


def application(context: DashboardContext) -> ASGIApp:
    """Return the application behind its security middleware."""
    routes: list[Route | Mount] = [Route(path, _get(context, page), methods=["GET"]) for path, page in PAGES.items()]
    routes += [Route(path, _post(context, path, action), methods=["POST"]) for path, action in ACTIONS.items()]
    routes.append(Mount("/static", StaticFiles(packages=[("kerolox.dashboard", "static")])))

    async def not_found(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        page = Page(request, context, request.scope.get(SESSION_KEY))
        return _error_page(page, "There is no such page.", error.status_code)

    app = Starlette(routes=routes, exception_handlers={404: not_found, 405: not_found})
    return SecurityMiddleware(app, context)


def _get(context: DashboardContext, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await _respond(Page(request, context, request.scope.get(SESSION_KEY)), handler)

    return endpoint


def _post(context: DashboardContext, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    size_max = _FORM_SIZES.get(path, FORM_SIZE_MAX)

    async def checked(page: Page) -> Response:
        page.form = await _form(page.request, size_max)
        if not hmac.compare_digest(page.field("token").encode(), page.token.encode()):
            raise RequestRefused("this form has expired: go back, reload the page and submit it again", 403)
        if path in _LOGIN_ACTIONS:
            return await handler(page)
        user = page.session.user if page.session else "anonymous"
        try:
            if page.is_reader:
                raise RequestRefused("this dashboard is read-only for you", 403)
            response = await handler(page)
        except RequestRefused as refused:
            log.warning("%s by %s%s: refused: %s", path, user, _logged_fields(page), refused.message)
            raise
        except KeroloxError as error:
            log.warning("%s by %s%s: failed: %s", path, user, _logged_fields(page), error)
            raise
        log.info("%s by %s%s: done", path, user, _logged_fields(page))
        return response

    async def endpoint(request: Request) -> Response:
        return await _respond(Page(request, context, request.scope.get(SESSION_KEY)), checked)

    return endpoint


def _logged_fields(page: Page) -> str:
    """Return the fields of a form that name its subject, for the log."""
    fields = {name: page.field(name)[:200] for name in _LOGGED_FIELDS if page.field(name)}
    return "".join(f", {name} {value!r}" for name, value in fields.items())


async def _respond(page: Page, handler: Handler) -> Response:
    """Return the response of the handler; any error becomes a page with a message."""
    try:
        return await handler(page)
    except RequestRefused as refused:
        return _error_page(page, refused.message, refused.status)
    except KeroloxError as error:
        return _error_page(page, error_text(error), http_status(error))
    except ClientDisconnect:
        return PlainTextResponse("", 400)
    except Exception:
        log.exception("page %s failed", page.request.url.path)
        return _error_page(page, "Internal error of the dashboard; see its log.", 500)


def _error_page(page: Page, message: str, status: int) -> Response:
    if page.request.url.path.endswith(".json"):
        return PlainTextResponse(message + "\n", status)
    return page.render("problem.html", status, message=message)


async def _form(request: Request, size_max: int) -> dict[str, list[str]]:
    """Return the fields of a form; RequestRefused if it exceeds the limits on bytes, fields or time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RequestRefused(f"content type {kind[:60]!r}: expected application/x-www-form-urlencoded", 415)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > size_max:
                    raise RequestRefused(f"the form has more than {size_max} bytes, the limit for it", 413)
                parts.append(part)
    except TimeoutError:
        raise RequestRefused(f"the form was not received within {_FORM_SECONDS:.0f} s", 408) from None
    try:
        return parse_qs(b"".join(parts).decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise RequestRefused(f"the form is malformed, or has more than {_FIELDS_MAX} fields") from None
