"""ASGI middleware: checks host name, origin and session, and adds security headers to every response."""

import logging
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kerolox.dashboard.http.errors import StreamAborted
from kerolox.dashboard.http.page import DashboardContext
from kerolox.dashboard.http.proxies import apply_forwarded, networks
from kerolox.dashboard.http.sessions import Session
from kerolox.dashboard.options import is_loopback

log = logging.getLogger(__name__)

SESSION_KEY = "kerolox.session"
SESSION_ID_KEY = "kerolox.session_id"
_COOKIE_SIZE_MAX = 8192
# Paths that need no login.
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


class SecurityMiddleware:
    """Wraps the application. Requests that pass have their session in the scope."""

    def __init__(self, app: ASGIApp, context: DashboardContext) -> None:
        self._app = app
        self._context = context
        self._proxies = networks(context.options.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        apply_forwarded(scope, self._proxies)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        app = self._refusal(scope) or self._app
        try:
            await app(scope, receive, send_with_headers)
        except StreamAborted:
            # The response is incomplete, so uvicorn closes the connection.
            return

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to a request that is refused or redirected to the login; None if it may pass."""
        headers = Headers(scope=scope)
        if not self._is_allowed_host(headers.get("host", "")):
            return PlainTextResponse("This host name is not allowed (--allowed-host).\n", 421)
        if scope["method"] not in _METHODS:
            return PlainTextResponse("Only GET, HEAD and POST are supported.\n", 405)
        if scope["method"] == "POST" and not _is_same_origin(headers):
            return PlainTextResponse("This form was not sent from the dashboard's own pages.\n", 403)
        scope[SESSION_ID_KEY], scope[SESSION_KEY] = self._session(headers)
        if self._context.users is None or scope[SESSION_KEY] is not None:
            return None
        if scope["path"].startswith(_OPEN_PATHS):
            return None
        if scope["path"].endswith(".json"):
            return PlainTextResponse("Log in first.\n", 401)
        return RedirectResponse("/login", 303)

    def _is_allowed_host(self, host: str) -> bool:
        """Whether the Host header is a name of this dashboard; protects against DNS rebinding."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and not host.endswith("]") else host
        options = self._context.options
        if options.allowed_hosts and name.lower() in options.allowed_hosts:
            return True
        return is_loopback(name) if options.is_loopback else not options.allowed_hosts

    def _session(self, headers: Headers) -> tuple[str, Session | None]:
        text = headers.get("cookie", "")
        if self._context.users is None or not text or len(text) > _COOKIE_SIZE_MAX:
            return "", None
        try:
            found = SimpleCookie(text).get(self._context.cookie)
        except CookieError:
            return "", None
        return (found.value, self._context.sessions.find(found.value)) if found else ("", None)


def _is_same_origin(headers: Headers) -> bool:
    """Whether a form was sent from our own pages. Clients that are no browsers send neither header."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
