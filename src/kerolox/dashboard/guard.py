"""What stands before every page: the names it is called by, who comes in, and what browsers are told to forbid."""

import logging
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kerolox.dashboard.options import is_loopback
from kerolox.dashboard.page import Desk
from kerolox.dashboard.sentences import Cut
from kerolox.dashboard.sessions import Session

log = logging.getLogger(__name__)

SESSION_KEY = "kerolox.session"
SESSION_ID_KEY = "kerolox.session_id"
_COOKIE_SIZE_MAX = 8192
# What is shown to those who are not logged in.
_OPEN_PATHS = ("/login", "/static/")
_METHODS = ("GET", "HEAD", "POST")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Wraps the application; what it lets through has its session in the scope."""

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        app = self._refusal(scope) or self._app
        try:
            await app(scope, receive, guarded)
        except Cut:
            # The connection is closed before the end is sent.
            return

    def _refusal(self, scope: Scope) -> Response | None:
        """Returns what is answered instead; None if the page is to be shown."""
        headers = Headers(scope=scope)
        if not self._is_ours(headers.get("host", "")):
            return PlainTextResponse("This dashboard is not known by this name.\n", 421)
        if scope["method"] not in _METHODS:
            return PlainTextResponse("GET, HEAD and POST are answered here.\n", 405)
        if scope["method"] == "POST" and not _is_same_origin(headers):
            return PlainTextResponse("This form was not sent from the dashboard's own pages.\n", 403)
        scope[SESSION_ID_KEY], scope[SESSION_KEY] = self._session(headers)
        if self._desk.users is None or scope[SESSION_KEY] is not None:
            return None
        if scope["path"].startswith(_OPEN_PATHS):
            return None
        if scope["path"].endswith(".json"):
            return PlainTextResponse("Log in first.\n", 401)
        return RedirectResponse("/login", 303)

    def _is_ours(self, host: str) -> bool:
        """Whether the browser was led here by a name of ours: else a foreign page may have had its own lead here."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
        options = self._desk.options
        if options.allowed_hosts and name.lower() in options.allowed_hosts:
            return True
        return is_loopback(name) if options.is_loopback else not options.allowed_hosts

    def _session(self, headers: Headers) -> tuple[str, Session | None]:
        text = headers.get("cookie", "")
        if self._desk.users is None or not text or len(text) > _COOKIE_SIZE_MAX:
            return "", None
        try:
            found = SimpleCookie(text).get(self._desk.cookie)
        except CookieError:
            return "", None
        return (found.value, self._desk.sessions.find(found.value)) if found else ("", None)


def _is_same_origin(headers: Headers) -> bool:
    """Browsers say where a form comes from; who is none need not, and has no cookies to be misused."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
