"""Generates docs/reference/configuration.md: every setting, from the classes that declare them."""

import dataclasses
import inspect
import typing
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from kerolox.broker.config import BrokerConfig, ClientConfig, ServerConfig
from kerolox.controller import ControllerConfig
from kerolox.namesrv import NamesrvConfig
from kerolox.remoting.config import ListenerConfig
from kerolox.replication.config import ReplicationConfig
from kerolox.runtime.config import INT_MAX, INT_MIN, Properties
from kerolox.store.config import StoreConfig

PAGE = Path(__file__).parent / "reference" / "configuration.md"

_HEAD = """# Configuration

`kerolox broker -c FILE`, `kerolox namesrv -c FILE` and `kerolox controller -c FILE` read a properties file with
RocketMQ's keys; `-p` prints every setting with its value. Unknown keys are kept and shown, but have no effect; a
warning at the start names them. `kerolox admin updateBrokerConfig`, `updateNamesrvConfig` and `updateControllerConfig`
change the settings marked _changeable_ while the server runs, and no others. `python -m docs.generate` generates this
page from the code, and a test compares them.

"""
# Defaults that depend on the machine, by key.
_MACHINE_DEFAULTS = {
    "rocketmqHome": "`$ROCKETMQ_HOME`",
    "namesrvAddr": "`$NAMESRV_ADDR`",
    "brokerName": "name of the machine",
    "storePathRootDir": "`~/store`",
    "kvConfigPath": "`~/namesrv/kvConfig.json`",
    "controllerStorePath": "`~/KeroloxController`",
}
_PARTS: tuple[tuple[str, type[Properties]], ...] = (
    ("Brokers", BrokerConfig),
    ("The port of a broker", ServerConfig),
    ("The store of a broker", StoreConfig),
    ("Replication", ReplicationConfig),
    ("A broker's connections to NameServers", ClientConfig),
    ("NameServers", NamesrvConfig),
    ("Controllers", ControllerConfig),
    ("All servers: listening, TLS, logs, metrics", ListenerConfig),
)


def page() -> str:
    """Return the text of the generated page."""
    own = {"listenPort"}
    shared = set(ListenerConfig.keys()) - own
    parts = [_part(title, kind, own if kind is ListenerConfig else shared) for title, kind in _PARTS]
    return _HEAD + "\n".join(parts)


def _part(title: str, kind: type[Properties], left_out: set[str]) -> str:
    comments = {**comments_of(ListenerConfig), **comments_of(kind)}
    hints = typing.get_type_hints(kind)
    rows = [
        f"| `{key}` | {_kind(hints[field.name], field)} | {_default(key, field)} | {_description(field, comments)} |\n"
        for key, field in kind.keys().items()
        if key not in left_out
    ]
    return f"## {title}\n\n| key | value | default | |\n|---|---|---|---|\n{''.join(rows)}"


def _kind(hint: Any, field: "dataclasses.Field[Any]") -> str:
    if isinstance(hint, UnionType):
        hint = next(member for member in hint.__args__ if member is not NoneType)
    if issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    if hint is bool:
        return "`true`, `false`"
    if hint is int:
        low, high = field.metadata.get("bounds", (INT_MIN, INT_MAX))
        return "number" if (low, high) == (INT_MIN, INT_MAX) else f"{_limit(low)} to {_limit(high)}"
    return "path" if hint is Path else "text"


def _limit(number: int) -> str:
    for power in (31, 40, 63):
        for value, text in ((2**power, f"2^{power}"), (2**power - 1, f"2^{power}-1"), (-(2**power), f"-2^{power}")):
            if number == value:
                return text
    return f"{number:,}"


def _default(key: str, field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return _MACHINE_DEFAULTS.get(key) or _path_default(field)
    value = field.default
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _path_default(field: "dataclasses.Field[Any]") -> str:
    """Return a default below the user's directory, which differs between servers that have the same key."""
    assert field.default_factory is not dataclasses.MISSING
    return f"`~/{field.default_factory().relative_to(Path.home())}`"


def _description(field: "dataclasses.Field[Any]", comments: dict[str, str]) -> str:
    marks = ["_changeable_"] if field.metadata.get("changeable") else []
    if older := field.metadata.get("formerly"):
        marks.append(f"Older releases spell it `{older}`, which is accepted, too.")
    return " ".join([comments.get(field.name, ""), *marks]).strip().replace("|", "\\|")


def comments_of(kind: type) -> dict[str, str]:
    """Return the comment above each field, by field name; a comment without a full stop is a heading and is ignored."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        text = line.strip()
        if text.startswith("# "):
            above.append(text.removeprefix("# "))
            continue
        name = text.partition(":")[0]
        if above and name.isidentifier() and " ".join(above).endswith("."):
            found[name] = " ".join(above)
        above = []
    return found
