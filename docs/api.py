"""docs/reference/api.md: the public classes of clients, admin client and test support, from their docstrings."""

import ast
import dataclasses
import enum
import inspect
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import kerolox.admin
import kerolox.admin.sync
import kerolox.client
import kerolox.client.sync
import kerolox.client.telemetry
import kerolox.testing
from docs.configuration import comments_of
from kerolox.client.consumer.settings import MemberSettings, PullSettings, PushSettings
from kerolox.client.options import Options
from kerolox.client.producer.settings import ProducerSettings

PAGE = Path(__file__).parent / "reference" / "api.md"

_HEAD = """# API

The public classes and functions, with their docstrings. This page is generated from the code by
`python -m docs.generate`, and a test compares it. The options of Spark are on the pages about
[reading](../how-to/read-topics-with-spark.md) and [writing](../how-to/write-topics-with-spark.md) topics, the settings
of servers on [configuration](configuration.md).
"""
# Modules with their public names; those of the blocking modules that are the same objects are not repeated.
_MODULES: tuple[tuple[ModuleType, str], ...] = (
    (kerolox.client, "Clients for asyncio."),
    (kerolox.client.sync, "The same for code without an event loop: methods block. Other names are those above."),
    (kerolox.admin, "The admin client for asyncio: a group of methods per operator task."),
    (kerolox.admin.sync, "The same for code without an event loop."),
    (kerolox.client.telemetry, "OpenTelemetry spans of messages."),
    (kerolox.testing, "An embedded cluster for tests; the pytest fixture `kerolox_cluster` is one."),
)
# Classes whose fields and comments document the keyword arguments of clients.
_SETTINGS = (Options, MemberSettings, ProducerSettings, PushSettings, PullSettings)


def page() -> str:
    """Return the text of the generated page."""
    seen: set[int] = set()
    parts = [_HEAD]
    for module, summary in _MODULES:
        parts.append(f"\n## {module.__name__}\n\n{summary}\n")
        for name in getattr(module, "__all__", None) or _public_names(module):
            value = getattr(module, name)
            if id(value) not in seen and not isinstance(value, ModuleType):
                seen.add(id(value))
                parts.append(_described(name, value))
    return "".join(parts)


def _public_names(module: ModuleType) -> list[str]:
    """Return the names that a module without `__all__` defines itself."""
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [name for name in defined if name[0] != "_"]


def _described(name: str, value: Any) -> str:
    if isinstance(value, type):
        return f"\n### {name}\n\n" + "".join(_class(value))
    if isinstance(value, FunctionType):
        return f"\n### {name}\n\n{_code(_signature(name, value))}{_doc(value)}"
    return ""


def _class(value: type) -> Iterator[str]:
    if issubclass(value, enum.Enum):
        yield _doc(value)
        yield "".join(f"- `{member.name}`\n" for member in value)
        return
    made = _own(value, "__init__")
    if issubclass(value, BaseException):
        yield _doc(value)
        return
    if made is not None and not getattr(value, "_is_protocol", False) and not _fields(value):
        yield _code(_signature(value.__name__, made))
    yield _doc(value)
    yield _keywords(made)
    fields = _fields(value)
    if fields:
        yield "Fields: " + ", ".join(f"`{field}`" for field in fields) + "\n\n"
    groups = {name: hint for name, hint in _attributes(value) if not name.startswith("_")}
    for name, member in _members(value):
        if isinstance(member, property):
            yield f"- `{name}`{_dash(member)}\n"
        else:
            yield f"- `{_signature(name, member)}`{_dash(member)}\n"
    for name, group in groups.items():
        yield f"\n#### {value.__name__}.{name}\n\n"
        for method, member in _members(group):
            text = _signature(method, member) if not isinstance(member, property) else method
            yield f"- `{text}`{_dash(member)}\n"


def _attributes(value: type) -> Iterator[tuple[str, type]]:
    """Yield the method groups of an admin client: attributes whose class has public methods."""
    if value.__name__ != "AdminClient":
        return
    made = _own(value, "__init__")
    assert made is not None
    scope = {**made.__globals__}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(made)))):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Attribute)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and isinstance(scope.get(node.value.func.id), type)
        ):
            yield node.targets[0].attr, scope[node.value.func.id]


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties in source order, including those of our base classes."""
    found: dict[str, Any] = {}
    for kind in reversed(value.__mro__):
        if kind.__module__.startswith("kerolox") and not getattr(kind, "_is_protocol", False):
            found |= {
                name: member
                for name, member in vars(kind).items()
                if name[0] != "_" and isinstance(member, FunctionType | property | classmethod | staticmethod)
            }
    for name, member in found.items():
        yield name, getattr(member, "__func__", member)


def _own(value: type, name: str) -> FunctionType | None:
    for kind in value.__mro__:
        if kind.__module__.startswith("kerolox") and isinstance(vars(kind).get(name), FunctionType):
            return typing.cast("FunctionType", vars(kind)[name])
    return None


def _fields(value: type) -> list[str]:
    fields = getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", None) or ()
    return [name for name in fields if name[0] != "_"]


def _signature(name: str, function: Any) -> str:
    """Return a signature as in the source, so that it is the same on every Python."""
    inner = inspect.unwrap(function)
    try:
        node = ast.parse(textwrap.dedent(inspect.getsource(inner))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return f"{name}(...)"
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{name}(...)"
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    is_async = isinstance(node, ast.AsyncFunctionDef) and inspect.iscoroutinefunction(function)
    returns = "" if node.returns is None or name[0].isupper() else f" -> {ast.unparse(node.returns).strip(chr(39))}"
    return f"{'async ' if is_async else ''}{name}({ast.unparse(arguments)}){returns}"


def _keywords(made: FunctionType | None) -> str:
    """Return the keywords of `**keywords: Unpack[...]`, which the signature does not name."""
    if made is None:
        return ""
    hint = typing.get_type_hints(made).get("keywords") if "keywords" in made.__annotations__ else None
    kinds = typing.get_args(hint)
    if not kinds:
        return ""
    described = {name: text for kind in _SETTINGS for name, text in _settings(kind)}
    return (
        "Keywords:\n\n" + "".join(f"- `{name}`{described.get(name, '')}\n" for name in kinds[0].__annotations__) + "\n"
    )


def _settings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a settings class, each with its default and the comment above it."""
    comments = comments_of(kind)
    for field in dataclasses.fields(kind):
        is_plain = isinstance(field.default, bool | int | float | str) and not isinstance(field.default, enum.Enum)
        default = f" = `{field.default!r}`" if is_plain else ""
        yield field.name, default + (f": {comments[field.name]}" if field.name in comments else "")


def _doc(value: Any) -> str:
    # Not `inspect.getdoc`: a class without a docstring would have that of Enum or Exception.
    text = inspect.cleandoc(value.__doc__) if vars(value).get("__doc__") or isinstance(value, FunctionType) else ""
    return f"{text}\n\n" if text else ""


def _dash(member: Any) -> str:
    text = inspect.getdoc(inspect.unwrap(member) if callable(member) else member)
    return f": {text.splitlines()[0]}" if text else ""


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n\n"
