"""Compares a blocking class with the asyncio class that it wraps."""

import inspect
from collections.abc import Collection, Iterator
from typing import Any

from kerolox.client.blocking.facade import Blocking


def differences(blocking: type[Blocking[Any]], asynchronous: type, others: Collection[str] = ()) -> list[str]:
    """Return the members that only one of the classes has, or that have different signatures.

    `others` are public names that are not for users.
    """
    wanted, given = _members(asynchronous, others), _members(blocking)
    found = [f"{name} is missing" for name in wanted.keys() - given.keys()]
    # Instance attributes of the asyncio class are properties of the blocking one.
    found += [
        f"{name} is not in the asyncio class"
        for name in given.keys() - wanted.keys()
        if not isinstance(given[name], property)
    ]
    for name in wanted.keys() & given.keys():
        found += _signature_differences(name, given[name], wanted[name])
    return [
        *found,
        *_signature_differences("__init__", _member(blocking, "__init__"), _member(asynchronous, "__init__")),
    ]


def _members(kind: type, others: Collection[str] = ()) -> dict[str, Any]:
    names = [name for name in dir(kind) if not name.startswith("_") and name not in others]
    return {name: member for name in names if (member := _member(kind, name)) is not None}


def _member(kind: type, name: str) -> Any:
    member = inspect.getattr_static(kind, name)
    return member if inspect.isfunction(member) or isinstance(member, property) else None


def _signature_differences(name: str, given: Any, wanted: Any) -> Iterator[str]:
    if isinstance(given, property) or isinstance(wanted, property):
        if type(given) is not type(wanted):
            yield f"{name} is a property of only one"
            return
        given, wanted = given.fget, wanted.fget
    ours, theirs = inspect.signature(given), inspect.signature(wanted)
    if list(ours.parameters.values()) != list(theirs.parameters.values()):
        yield f"{name}{ours} for {theirs}"
    if _plain(ours.return_annotation) != _plain(theirs.return_annotation):
        yield f"{name} returns {ours.return_annotation} for {theirs.return_annotation}"
    if inspect.unwrap(given).__name__ != inspect.unwrap(wanted).__name__:
        yield f"{name} is {given.__qualname__}"
    if inspect.iscoroutinefunction(given) or inspect.isasyncgenfunction(given):
        yield f"{name} does not block"


def _plain(annotation: object) -> str:
    return str(annotation).replace("Async", "")
