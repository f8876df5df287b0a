"""Logging in and out."""

from starlette.responses import Response

from kerolox.dashboard.guard import SESSION_ID_KEY
from kerolox.dashboard.page import Page
from kerolox.dashboard.sentences import Refused
from kerolox.dashboard.sessions import LIFE_SECONDS
from kerolox.dashboard.users import NAME_SIZE_MAX, PASSWORD_SIZE_MAX
from kerolox.runtime.blocking import in_thread


async def login_page(page: Page) -> Response:
    if page.desk.users is None or page.session is not None:
        return page.go("/")
    return page.show("login.html")


async def login(page: Page) -> Response:
    desk = page.desk
    if desk.users is None:
        return page.go("/")
    client = page.request.client.host if page.request.client else ""
    wait = desk.guesses.wait_seconds(client)
    if wait > 0:
        raise Refused(f"too many wrong passwords from {client}: try again in {wait:.0f} s", 429)
    name, password = page.field("name")[:NAME_SIZE_MAX], page.form.get("password", [""])[0][:PASSWORD_SIZE_MAX]
    # Counted before it is known, so that many guesses at the same time are not free.
    desk.guesses.wrong(client)
    async with desk.checking:
        user = await in_thread(desk.users.check, name, password)
    if user is None:
        return page.show("login.html", 403, refused="Name or password is wrong.")
    desk.guesses.right(client)
    answer = page.go("/")
    answer.set_cookie(
        desk.cookie,
        desk.sessions.begin(user.name, is_reader=user.is_reader),
        max_age=int(LIFE_SECONDS),
        httponly=True,
        samesite="strict",
        secure=page.request.url.scheme == "https",
    )
    return answer


async def logout(page: Page) -> Response:
    page.desk.sessions.end(page.request.scope.get(SESSION_ID_KEY, ""))
    answer = page.go("/login")
    answer.delete_cookie(page.desk.cookie, httponly=True, samesite="strict")
    return answer
