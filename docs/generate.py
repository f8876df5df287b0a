"""`python -m docs.generate`: writes the pages of docs/reference that are generated from the code.

This module generates requests.md: every request code, which server answers it, and its state.
"""

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from docs import api, commands, configuration, metrics
from kerolox.broker import Broker, Settings
from kerolox.broker.unsupported import REFUSED, UNSUPPORTED
from kerolox.codes import RequestCode
from kerolox.controller import Controller, ControllerConfig
from kerolox.namesrv import NameServer, NamesrvConfig
from kerolox.wire import headers
from kerolox.wire.header import Request

PAGE = Path(__file__).parent / "reference" / "requests.md"

# Requests that brokers send to clients.
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

All request codes of the protocol, with the servers that answer them, the fields of their headers (fields in brackets
are optional), and their state. Other requests get code 3, REQUEST_CODE_NOT_SUPPORTED. `python -m docs.generate`
generates this page from the code, and a test compares them.

| code | name | answered by | header | state |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the generated page."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    # The constructors register the processors, so no server needs to be started.
    brokers = Broker(Settings()).router.requests
    name_servers = NameServer(NamesrvConfig()).router.requests
    controllers = Controller(ControllerConfig()).router.requests
    declared = _declared()
    for code in RequestCode:
        answering = [
            who
            for who, answers in (
                ("NameServer", code in name_servers),
                ("controller", code in controllers),
                ("broker", code in brokers),
            )
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
        return "forwarded to the client" if is_answered else "sent to clients by a broker"
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
        # Tests declare further requests.
        if hasattr(request, "code") and request.__module__.startswith(headers.__name__)
    }


def _descendants(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from _descendants(child)


def write() -> None:
    PAGE.write_text(page())
    for part in (api, commands, configuration, metrics):
        part.PAGE.write_text(part.page())


if __name__ == "__main__":
    write()
    sys.stdout.write(f"wrote the pages in {PAGE.parent}\n")
