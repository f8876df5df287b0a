"""JSON as Java's fastjson reads and writes it.

What leaves here is compact, members in alphabetical order, nulls left out, and integer keys unquoted unless the
reader asked for standard JSON. What comes in may have unquoted names and integer keys, single quotes, stray commas,
objects as keys and `$ref` to something said before.
"""

import itertools
import json
import re
from collections.abc import Hashable, Iterator
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from kerolox.errors import ProtocolError

T = TypeVar("T")

DEPTH_MAX = 64
# The dialect is read by Python code that holds the event loop; standard JSON has no such bound.
DIALECT_SIZE_MAX = 256 * 1024
# References to references grow without end; Java only shares what it would otherwise write twice.
REFERENCED_SIZE_MAX = 100_000

REFERENCE_LENGTH_MAX = 256

# All that msgspec raises over bytes it cannot make sense of.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

_INTEGER_KEY = re.compile(rb"(?<=[{,])(-?[0-9]+)(?=:)")


def decode(data: bytes, kind: type[T]) -> T:
    """Returns `data` as `kind`; standard JSON at full speed, fastjson's dialect where that fails."""
    try:
        # A dollar is rare and found fast; what it may begin is looked for only then.
        if b"$" not in data or b'"$ref"' not in data:
            return _decode_standard(data, kind)
        return _convert(parse(data), kind)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"not a {kind.__name__}: {error}") from error


def _decode_standard(data: bytes, kind: type[T]) -> T:
    value: T
    decoder = _decoder(cast("Hashable", kind))
    try:
        value = decoder.decode(data)
        return value
    except msgspec.ValidationError:
        raise
    except DECODE_ERRORS:
        pass
    try:
        # Unquoted integer keys are the dialect's most frequent trait. Where such a key is part of a text, quoting
        # it breaks the text in two, and the document is left to the reader of the dialect.
        value = decoder.decode(_INTEGER_KEY.sub(rb'"\1"', data))
        return value
    except msgspec.ValidationError:
        raise
    except DECODE_ERRORS:
        return _convert(parse(data), kind)


def _convert(value: Any, kind: type[T]) -> T:
    if _has_object_keys(cast("Hashable", kind)):
        value = _with_object_keys(value, kind)
    return msgspec.convert(value, kind, strict=False, str_keys=True)


@cache
def _has_object_keys(kind: Any) -> bool:
    if _is_struct(kind):
        return any(map(_has_object_keys, _hints(kind).values()))
    parts = get_args(kind)
    return (get_origin(kind) is dict and _is_struct(parts[0])) or any(map(_has_object_keys, parts))


def _with_object_keys(value: Any, kind: Any) -> Any:
    """Returns the same with the keys that are objects made of the text that the parser leaves of them."""
    if not _has_object_keys(kind):
        return value
    parts = get_args(kind)
    if isinstance(value, list) and parts:
        return [_with_object_keys(item, parts[0]) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_struct(kind):
        hints = _hints(kind)
        return {name: _with_object_keys(item, hints.get(name)) for name, item in value.items()}
    if get_origin(kind) is dict:
        key, of = parts
        return {
            msgspec.json.decode(name, type=key, strict=False) if _is_struct(key) else name: _with_object_keys(item, of)
            for name, item in value.items()
        }
    # One of several, of which only one is not None.
    return _with_object_keys(value, next(part for part in parts if _has_object_keys(part)))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Returns the types of the members, by their names in a document."""
    hints = get_type_hints(kind)
    return {name: hints[field] for name, field in _members(kind)}


def encode(value: Any, *, strict: bool = False) -> bytes:
    """Returns compact JSON; `strict` quotes integer keys and sorts maps."""
    parts: list[str] = []
    _write(value, strict, parts)
    return "".join(parts).encode()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


# Writing


def _write(value: Any, strict: bool, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(_string(value))
    elif value is True or value is False:
        parts.append("true" if value else "false")
    elif value is None:
        parts.append("null")
    elif isinstance(value, int):
        # An IntFlag is a number here, whatever its repr says.
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        parts.append(repr(value))
    elif isinstance(value, dict):
        _write_members(sorted(value.items()) if strict else value.items(), strict, parts)
    elif isinstance(value, msgspec.Struct):
        _write_members([(name, getattr(value, field)) for name, field in _members(type(value))], strict, parts)
    else:
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, strict, parts)
        parts.append("]")


def _write_members(members: Any, strict: bool, parts: list[str]) -> None:
    parts.append("{")
    comma = ""
    for key, value in members:
        if value is None:
            continue
        parts.append(comma)
        comma = ","
        if isinstance(key, str):
            parts.append(_string(key))
        elif isinstance(key, int):
            parts.append(f'"{key}"' if strict else str(key))
        else:
            _write(key, strict, parts)
        parts.append(":")
        _write(value, strict, parts)
    parts.append("}")


@cache
def _members(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return sorted(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))


_string = json.JSONEncoder(ensure_ascii=False).encode


# Reading the dialect

_TOKEN = re.compile(
    r"""[\s,]*(?:
        (?P<punctuation>[{}\[\]:])
      | (?P<double>"(?:[^"\\]|\\.)*")
      | (?P<single>'(?:[^'\\]|\\.)*')
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])
      | (?P<word>[A-Za-z_$][\w$.-]*)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "NaN": float("nan")}
_SINGLE_QUOTED = re.compile(r"""\\'|\\.|[^\\]""", re.DOTALL)


def parse(data: bytes) -> Any:
    """Returns what a document in fastjson's dialect says; every key is text, an object as a key is its own JSON."""
    if len(data) > DIALECT_SIZE_MAX:
        raise ProtocolError(f"not standard JSON, and with {len(data)} bytes too long to be read as fastjson's")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error}") from error
    reader = _Reader(text)
    value = reader.value(0)
    if text[reader.position :].strip(" \t\r\n,"):
        raise reader.complaint("something after the end of the document")
    return _without_references(value, value, 0, itertools.count(1)) if '"$ref"' in text else value


class _Reader:
    """Reads tokens from left to right; commas count as white space, as they nearly do for fastjson."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.is_in_key = False

    def complaint(self, what: str) -> ProtocolError:
        return ProtocolError(f"{what} at character {self.position} of {len(self.text)}")

    def token(self) -> tuple[str, str]:
        found = _TOKEN.match(self.text, self.position)
        if found is None or found.lastgroup is None:
            raise self.complaint("no JSON")
        self.position = found.end()
        return found.lastgroup, found[found.lastgroup]

    def value(self, depth: int) -> Any:
        return self.value_of(*self.token(), depth)

    def value_of(self, kind: str, text: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self.complaint(f"nested deeper than {DEPTH_MAX}")
        if kind == "double" or kind == "single":
            return self.string(kind, text)
        if kind == "number":
            return json.loads(text) if len(text) < 400 else float(text)
        if kind == "word" and text in _WORDS:
            return _WORDS[text]
        if text == "{":
            return self.members(depth + 1)
        if text == "[":
            return self.items(depth + 1)
        raise self.complaint(f"unexpected {text[:20]!r}")

    def string(self, kind: str, text: str) -> str:
        if kind == "single":
            inner = "".join({"\\'": "'", '"': '\\"'}.get(piece, piece) for piece in _SINGLE_QUOTED.findall(text[1:-1]))
            text = f'"{inner}"'
        try:
            value: str = json.loads(text, strict=False)
            # Half of a surrogate pair could be read, but never written again.
            value.encode()
        except ValueError as error:
            raise self.complaint("a string that cannot be read") from error
        return value

    def members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while True:
            kind, text = self.token()
            if text == "}" and kind == "punctuation":
                return members
            key = text if kind == "word" else self.key(kind, text, depth)
            if self.token() != ("punctuation", ":"):
                raise self.complaint(f"no value for the key {key[:20]!r}")
            members[key] = self.value(depth)

    def key(self, kind: str, text: str, depth: int) -> str:
        if kind != "punctuation":
            name = self.value_of(kind, text, depth)
            return name if isinstance(name, str) else encode(name).decode()
        # Each level of quoting doubles the backslashes, so there is only one.
        if self.is_in_key:
            raise self.complaint("an object as a key inside of a key")
        self.is_in_key = True
        key = encode(self.value_of(kind, text, depth)).decode()
        self.is_in_key = False
        return key

    def items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while True:
            kind, text = self.token()
            if text == "]" and kind == "punctuation":
                return items
            items.append(self.value_of(kind, text, depth))


def _without_references(value: Any, root: Any, depth: int, count: Iterator[int]) -> Any:
    """Returns `value` with each `{"$ref":"$.a.b[0]"}` replaced by what stands there, or by null."""
    if depth > DEPTH_MAX:
        return None
    if next(count) > REFERENCED_SIZE_MAX:
        raise ProtocolError(f"its references make more than {REFERENCED_SIZE_MAX} values of it")
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get("$ref"), str):
            return _without_references(_at(root, value["$ref"]), root, depth + 1, count)
        return {key: _without_references(item, root, depth + 1, count) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_references(item, root, depth + 1, count) for item in value]
    return value


def _at(root: Any, path: str) -> Any:
    if not path.startswith("$") or len(path) > REFERENCE_LENGTH_MAX:
        return None
    found = root
    for name, index in re.findall(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]", path[1:]):
        try:
            found = found[int(index)] if index else found[name.replace("\\", "")]
        except (LookupError, TypeError):
            return None
    # What leads back to a reference would lead nowhere.
    return None if isinstance(found, dict) and "$ref" in found else found
