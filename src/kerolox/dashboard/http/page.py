"""A request for a page: its session, query and form, and the ways to answer it."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

import kerolox
from kerolox.admin import AdminClient
from kerolox.client import Producer
from kerolox.dashboard.http.errors import RequestRefused
from kerolox.dashboard.http.login_log import LoginLog
from kerolox.dashboard.http.sessions import LoginBackoff, Session, Sessions
from kerolox.dashboard.http.users import Users
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.sampler import Sampler
from kerolox.dashboard.views import formats

_NOTICES_MAX = 200
_QUERY_SIZE_MAX = 4096

MENU = (
    ("/", "Cluster"),
    ("/nameservers", "NameServers"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/messages", "Messages"),
    ("/dead-letters", "Dead letters"),
    ("/charts", "Charts"),
    ("/pipelines", "Pipelines"),
)


def address(path: str, **query: object) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("kerolox.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("number", "size", "percent", "date_time", "exact_time", "duration", "input_time")
    found.filters.update({name: getattr(formats, name) for name in names})
    found.globals["address"] = address
    return found


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that is shown once, at the top of the next page."""

    text: str
    is_bad: bool = False


class Notices:
    """Notices by random id. The URL has only the id, so that a link cannot make a page show any text."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Notice] = OrderedDict()

    def add(self, notice: Notice) -> str:
        while len(self._by_id) >= _NOTICES_MAX:
            self._by_id.popitem(last=False)
        notice_id = secrets.token_urlsafe(12)
        self._by_id[notice_id] = notice
        return notice_id

    def take(self, notice_id: str) -> Notice | None:
        return self._by_id.pop(notice_id, None)


@dataclass(slots=True, kw_only=True)
class DashboardContext:
    """The clients, tables and settings that all pages share."""

    options: DashboardOptions
    admin: AdminClient
    # An admin client that leaves message bodies compressed, as they are stored.
    raw_admin: AdminClient
    producer: Producer
    sampler: Sampler
    # None if no login is required.
    users: Users | None
    sessions: Sessions
    login_backoff: LoginBackoff
    login_log: LoginLog
    cookie: str
    notices: Notices = field(default_factory=Notices)
    # The CSRF token of forms without a session.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    # Limits concurrent password checks: each takes 16 MiB and a core.
    password_checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    templates: Environment = field(default_factory=_templates)


@dataclass(slots=True)
class Page:
    request: Request
    context: DashboardContext
    session: Session | None
    form: dict[str, list[str]] = field(default_factory=dict)

    @property
    def admin(self) -> AdminClient:
        return self.context.admin

    @property
    def token(self) -> str:
        return self.session.token if self.session else self.context.token

    @property
    def is_reader(self) -> bool:
        """Whether changes are refused."""
        return self.context.options.read_only or (self.session is not None and self.session.is_reader)

    # The request

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)[:_QUERY_SIZE_MAX].strip()

    def field(self, name: str, default: str = "") -> str:
        values = self.form.get(name)
        return values[0].strip() if values else default

    def require(self, name: str, label: str = "") -> str:
        """Return a field of the form or the query; RequestRefused, with its label, if it is missing."""
        found = self.field(name) if self.request.method == "POST" else self.query(name)
        if not found:
            raise RequestRefused(f"{label or name} is missing")
        return found

    def require_confirmation(self, action: str) -> None:
        if self.field("sure") != "yes":
            raise RequestRefused(f"tick the box to confirm that you want to {action}")

    def page_number(self, default: int = 1) -> int:
        text = self.query("page")
        return max(1, min(int(text), 1_000_000)) if text.isdecimal() and len(text) < 8 else default

    # The response

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        html = self.context.templates.get_template(template).render(
            page=self,
            path=self.request.url.path,
            menu=MENU,
            notice=self.context.notices.take(self.query("notice")),
            version=kerolox.__version__,
            **values,
        )
        # Untrusted text may contain lone surrogates.
        return HTMLResponse(html.encode("utf-8", "replace"), status)

    def redirect(self, path: str, notice: str | None = None, *, is_bad: bool = False, **query: str) -> Response:
        """Redirect to another page, which shows the notice."""
        if notice is not None:
            query["notice"] = self.context.notices.add(Notice(notice, is_bad))
        return RedirectResponse(address(path, **query), 303)

    @staticmethod
    def json(value: object) -> Response:
        return JSONResponse(value)


Handler = Callable[[Page], Awaitable[Response]]
