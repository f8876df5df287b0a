"""A page on its way: who asks for it, what was asked, and how it is answered."""

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
from kerolox.dashboard import texts
from kerolox.dashboard.options import DashboardOptions
from kerolox.dashboard.samples import Samples
from kerolox.dashboard.sentences import Refused
from kerolox.dashboard.sessions import Guesses, Session, Sessions
from kerolox.dashboard.users import Users

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
    names = ("number", "size", "percent", "moment", "exact", "span", "field_moment")
    found.filters.update({name: getattr(texts, name) for name in names})
    found.globals["address"] = address
    return found


@dataclass(frozen=True, slots=True)
class Notice:
    """What is said once, at the top of the next page."""

    text: str
    is_bad: bool = False


class Notices:
    """Kept here and not in the address, so that nobody can have our pages say something by a link."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Notice] = OrderedDict()

    def leave(self, notice: Notice) -> str:
        while len(self._by_id) >= _NOTICES_MAX:
            self._by_id.popitem(last=False)
        notice_id = secrets.token_urlsafe(12)
        self._by_id[notice_id] = notice
        return notice_id

    def take(self, notice_id: str) -> Notice | None:
        return self._by_id.pop(notice_id, None)


@dataclass(slots=True)
class Desk:
    """What all pages share."""

    options: DashboardOptions
    admin: AdminClient
    # The same, but it gives messages with their bodies as they are stored.
    stored: AdminClient
    producer: Producer
    samples: Samples
    # None where everybody may come in.
    users: Users | None
    sessions: Sessions
    guesses: Guesses
    cookie: str = "kerolox"
    notices: Notices = field(default_factory=Notices)
    # For forms of those who are not logged in.
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    # Each guess at a password takes memory and a core; so many are looked at together.
    checking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    templates: Environment = field(default_factory=_templates)


@dataclass(slots=True)
class Page:
    request: Request
    desk: Desk
    session: Session | None
    form: dict[str, list[str]] = field(default_factory=dict)

    @property
    def admin(self) -> AdminClient:
        return self.desk.admin

    @property
    def token(self) -> str:
        return self.session.token if self.session else self.desk.token

    @property
    def is_reader(self) -> bool:
        """Whether nothing may be changed from here."""
        return self.desk.options.read_only or (self.session is not None and self.session.is_reader)

    # What was asked

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)[:_QUERY_SIZE_MAX].strip()

    def field(self, name: str, default: str = "") -> str:
        values = self.form.get(name)
        return values[0].strip() if values else default

    def needed(self, name: str, of: str = "") -> str:
        """Returns a field of the form or of the address that must be there."""
        found = self.field(name) if self.request.method == "POST" else self.query(name)
        if not found:
            raise Refused(f"{of or name} is missing")
        return found

    def sure(self, what: str) -> None:
        if self.field("sure") != "yes":
            raise Refused(f"tick the box to confirm that you want to {what}")

    def number(self, default: int = 1) -> int:
        """Returns which page of several is wanted."""
        text = self.query("page")
        return max(1, min(int(text), 1_000_000)) if text.isdecimal() and len(text) < 8 else default

    # How it is answered

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        found = self.desk.templates.get_template(template).render(
            page=self,
            path=self.request.url.path,
            menu=MENU,
            notice=self.desk.notices.take(self.query("notice")),
            version=kerolox.__version__,
            **values,
        )
        # What somebody sent may hold half a character.
        return HTMLResponse(found.encode("utf-8", "replace"), status)

    def go(self, path: str, said: str | None = None, *, is_bad: bool = False, **query: str) -> Response:
        """Sends the browser to another page, which says it."""
        if said is not None:
            query["notice"] = self.desk.notices.leave(Notice(said, is_bad))
        return RedirectResponse(address(path, **query), 303)

    @staticmethod
    def data(value: object) -> Response:
        return JSONResponse(value)


Handler = Callable[[Page], Awaitable[Response]]
