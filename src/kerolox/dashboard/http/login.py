"""Logging in and out."""

import math

from starlette.responses import Response

from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.http.page import Page
from kerolox.dashboard.http.security import SESSION_ID_KEY
from kerolox.dashboard.http.sessions import LIFE_SECONDS
from kerolox.dashboard.http.users import NAME_SIZE_MAX, PASSWORD_SIZE_MAX
from kerolox.runtime.threads import in_thread


async def login_page(page: Page) -> Response:
    if page.context.users is None or page.session is not None:
        return page.redirect("/")
    return page.render("login.html")


async def login(page: Page) -> Response:
    context = page.context
    if context.users is None:
        return page.redirect("/")
    client = page.request.client.host if page.request.client else ""
    name, password = page.field("name")[:NAME_SIZE_MAX], page.form.get("password", [""])[0][:PASSWORD_SIZE_MAX]
    wait = math.ceil(context.login_backoff.wait_seconds(client))
    if wait > 0:
        context.login_log.refused(name, client, wait)
        raise RequestRefused(f"too many wrong passwords from {client}: try again in {wait} s", 429)
    # Count the attempt before its result is known, or concurrent attempts would evade the back-off.
    context.login_backoff.failed(client)
    async with context.password_checks:
        user = await in_thread(context.users.check, name, password)
    if user is None:
        context.login_log.failed(name, client)
        return page.render("login.html", 403, refused="Name or password is wrong.")
    context.login_log.succeeded(user.name, client)
    context.login_backoff.succeeded(client)
    response = page.redirect("/")
    response.set_cookie(
        context.cookie,
        context.sessions.begin(user.name, is_reader=user.is_reader),
        max_age=int(LIFE_SECONDS),
        httponly=True,
        samesite="strict",
        secure=_is_https(page),
    )
    return response


async def logout(page: Page) -> Response:
    page.context.sessions.end(page.request.scope.get(SESSION_ID_KEY, ""))
    response = page.redirect("/login")
    response.delete_cookie(page.context.cookie, httponly=True, samesite="strict", secure=_is_https(page))
    return response


def _is_https(page: Page) -> bool:
    """Whether the browser uses TLS, which a trusted proxy terminates; then the cookie must be `Secure`."""
    return page.request.url.scheme == "https"
