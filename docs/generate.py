"""Writes the pages of docs/reference that are made from the code. `python -m docs.generate`.

Here is requests.md: every request code, who answers it, and how.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from docs import commands, configuration, metrics
from kerolox.broker import Broker, Settings
from kerolox.broker.refusals import REFUSED, UNSUPPORTED
from kerolox.codes import RequestCode
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.wire import headers
from kerolox.wire.header import Request

PAGE = Path(__file__).parent / "reference" / "requests.md"

# What brokers ask of clients, or tell them.
TO_CLIENTS = frozenset(
    {
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    }
)

_HEAD = """# Requests

Every request code of the protocol, by whom it is answered, the fields of its header (those in brackets may be left
out), and its state. What is not answered gets code 3, REQUEST_CODE_NOT_SUPPORTED. This page is made from the code by
`python -m docs.generate`, and a test holds it to that.

| code | name | answered by | header | state |
|---|---|---|---|---|
"""


def page() -> str:
    """Returns the page as it should be."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    # Neither is started; they know what they answer from their making on.
    brokers = Broker(Settings()).routes.requests
    name_servers = NameServer(NamesrvConfig()).routes.requests
    declared = _declared()
    for code in RequestCode:
        answering = [
            who
            for who, answers in (("NameServer", code in name_servers), ("broker", code in brokers))
            if answers and code not in REFUSED
        ]
        is_answered = bool(answering)
        if code in TO_CLIENTS:
            answering.append("client")
        request = brokers.get(code) or name_servers.get(code) or declared.get(code)
        yield (
            str(int(code)),
            code.name,
            ", ".join(answering) or "—",
            "" if request is None else _fields(request),
            _state(code, is_answered=is_answered),
        )


def _state(code: RequestCode, *, is_answered: bool) -> str:
    if code in TO_CLIENTS:
        return "passed on to the client" if is_answered else "asked of clients by a broker"
    if is_answered:
        return "answered"
    if code in REFUSED:
        return f"refused with code 16: {REFUSED[code]}"
    return f"code 3: {UNSUPPORTED[code]}" if code in UNSUPPORTED else "code 3"


def _fields(request: type[Request[Any]]) -> str:
    fields = msgspec.structs.fields(request)
    return " ".join(f"`{field.encode_name}`" if field.required else f"[`{field.encode_name}`]" for field in fields)


def _declared() -> dict[int, type[Request[Any]]]:
    for module in pkgutil.iter_modules(headers.__path__, headers.__name__ + "."):
        importlib.import_module(module.name)
    return {
        request.code: request
        for request in _descendants(Request)
        # Tests declare some of their own.
        if hasattr(request, "code") and request.__module__.startswith(headers.__name__)
    }


def _descendants(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)


def write() -> None:
    PAGE.write_text(page())
    for part in (commands, configuration, metrics):
        part.PAGE.write_text(part.page())


if __name__ == "__main__":
    write()
    sys.stdout.write(f"wrote pages of {PAGE.parent}\n")
