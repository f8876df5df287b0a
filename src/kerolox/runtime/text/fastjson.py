"""JSON as Java's fastjson reads and writes it.

The encoder writes compact JSON with members in alphabetical order and without nulls; integer keys are unquoted unless
the reader asked for standard JSON. The decoder also accepts unquoted names and integer keys, single quotes, stray
commas, objects as keys, and `$ref` to another part of the document.
"""

import json
import re
from collections.abc import Hashable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec

from kerolox.errors import ProtocolError

T = TypeVar("T")

DEPTH_MAX = 64
# The dialect is parsed by Python code, which takes up to a microsecond per byte. Standard JSON has no such limit.
DIALECT_SIZE_MAX = 256 * 1024
# Nested references can expand exponentially (a "billion laughs" document). Java writes one only for an object
# that it has already written. A document may expand to this number of values, or to its length if that is more.
REFERENCED_VALUES_MIN = 10_000

REFERENCE_LENGTH_MAX = 256


class Bounds(NamedTuple):
    """Limits for a document that is decoded on an event loop, which it blocks meanwhile.

    The defaults keep that below 50 ms for every type that documents are decoded to.
    """

    size_max: int = 4 * 1024 * 1024
    # Limit on members and elements. Counts commas and opening brackets, including those inside strings.
    values_max: int = 100_000
    # Size limit for documents that are not standard JSON.
    dialect_size_max: int = 16 * 1024

    def check(self, data: bytes, kind: str) -> None:
        if len(data) > self.size_max:
            raise ProtocolError(f"{kind} of {len(data)} bytes exceeds the limit of {self.size_max}")
        values = data.count(b",") + data.count(b"{") + data.count(b"[")
        if values > self.values_max:
            raise ProtocolError(f"{kind} of {values} values exceeds the limit of {self.values_max}")


# Everything that msgspec raises for invalid input.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)

_INTEGER_KEY = re.compile(rb"(?<=[{,])(-?[0-9]+)(?=:)")


def decode(data: bytes, kind: type[T], bounds: Bounds | None = None) -> T:
    """Decode `data` to `kind`: with msgspec if it is standard JSON, else with the parser of fastjson's dialect.

    Pass `bounds` for untrusted input. ProtocolError if the document exceeds them or cannot be decoded.
    """
    if bounds is not None:
        bounds.check(data, kind.__name__)
    try:
        # Searching for one byte is much faster than for six, and a dollar sign is rare.
        if b"$" not in data or b'"$ref"' not in data:
            return _decode_standard(data, kind, bounds)
        return _convert(_parse(data, bounds), kind)
    except DECODE_ERRORS as error:
        raise ProtocolError(f"not a {kind.__name__}: {error}") from error


def _decode_standard(data: bytes, kind: type[T], bounds: Bounds | None) -> T:
    value: T
    decoder = _decoder(cast("Hashable", kind))
    try:
        value = decoder.decode(data)
        return value
    except msgspec.ValidationError:
        raise
    except DECODE_ERRORS:
        if bounds is not None:
            # Quoting keys takes as long as parsing the dialect, so the same limit applies.
            _check_dialect(data, bounds.dialect_size_max)
    try:
        # Unquoted integer keys are the most frequent deviation. If the pattern matches inside a string, quoting
        # makes the document invalid, and the dialect's parser below handles the unchanged document.
        value = decoder.decode(quote_integer_keys(data))
        return value
    except msgspec.ValidationError:
        raise
    except DECODE_ERRORS:
        return _convert(_parse(data, bounds), kind)


def quote_integer_keys(data: bytes) -> bytes:
    return _INTEGER_KEY.sub(rb'"\1"', data)


def _parse(data: bytes, bounds: Bounds | None) -> Any:
    return parse(data) if bounds is None else parse(data, bounds.dialect_size_max)


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
    """Replace keys that `parse` left as JSON text of an object by instances of the struct that `kind` declares."""
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
        key_kind, item_kind = parts
        return {
            msgspec.json.decode(name, type=key_kind, strict=False) if _is_struct(key_kind) else name: _with_object_keys(
                item, item_kind
            )
            for name, item in value.items()
        }
    # An optional type: take the member of the union that is not None.
    return _with_object_keys(value, next(part for part in parts if _has_object_keys(part)))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


@cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of the members by their JSON names."""
    hints = get_type_hints(kind)
    return {name: hints[field] for name, field in _members(kind)}


def encode(value: Any, *, strict: bool = False) -> bytes:
    """Return compact JSON; with `strict`, integer keys are quoted and maps are sorted by key."""
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
        # Not repr(): that of an IntFlag is not its number.
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


def parse(data: bytes, size_max: int = DIALECT_SIZE_MAX) -> Any:
    """Parse a document in fastjson's dialect. All keys become strings; an object as a key becomes its JSON text."""
    _check_dialect(data, size_max)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error}") from error
    reader = _Reader(text)
    value = reader.value(0)
    if text[reader.position :].strip(" \t\r\n,"):
        raise reader.error("unexpected text after the end of the document")
    return _References(value, max(len(text), REFERENCED_VALUES_MIN)).resolved(value) if '"$ref"' in text else value


def _check_dialect(data: bytes, size_max: int) -> None:
    if len(data) > size_max:
        raise ProtocolError(
            f"document of {len(data)} bytes is not standard JSON, and exceeds the limit of {size_max} for fastjson's"
        )


class _Reader:
    """Reads tokens from left to right. Commas are skipped like white space; fastjson is nearly as lenient."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.is_in_key = False

    def error(self, problem: str) -> ProtocolError:
        return ProtocolError(f"{problem} at character {self.position} of {len(self.text)}")

    def token(self) -> tuple[str, str]:
        found = _TOKEN.match(self.text, self.position)
        if found is None or found.lastgroup is None:
            raise self.error("invalid JSON")
        self.position = found.end()
        return found.lastgroup, found[found.lastgroup]

    def value(self, depth: int) -> Any:
        return self.value_of(*self.token(), depth)

    def value_of(self, kind: str, text: str, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self.error(f"nested deeper than {DEPTH_MAX}")
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
        raise self.error(f"unexpected {text[:20]!r}")

    def string(self, kind: str, text: str) -> str:
        if "\\" not in text:
            return text[1:-1]
        if kind == "single":
            inner = "".join({"\\'": "'", '"': '\\"'}.get(piece, piece) for piece in _SINGLE_QUOTED.findall(text[1:-1]))
            text = f'"{inner}"'
        try:
            value: str = json.loads(text, strict=False)
            # Refuse unpaired surrogates: the string could not be encoded again.
            value.encode()
        except ValueError as error:
            raise self.error("invalid string") from error
        return value

    def members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while True:
            kind, text = self.token()
            if text == "}" and kind == "punctuation":
                return members
            key = text if kind == "word" else self.key(kind, text, depth)
            if self.token() != ("punctuation", ":"):
                raise self.error(f"missing value for the key {key[:20]!r}")
            members[key] = self.value(depth)

    def key(self, kind: str, text: str, depth: int) -> str:
        if kind != "punctuation":
            name = self.value_of(kind, text, depth)
            return name if isinstance(name, str) else encode(name).decode()
        # Only one level is allowed: each level of quoting doubles the backslashes.
        if self.is_in_key:
            raise self.error("object as a key inside of a key")
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


class _References:
    """Replaces each `{"$ref":"$.a.b[0]"}` of a document by the value at that path, or by null if there is none."""

    def __init__(self, root: Any, values_max: int) -> None:
        self._root = root
        self._values_left = self._values_max = values_max
        self._found: dict[str, Any] = {}

    def resolved(self, value: Any, depth: int = 0) -> Any:
        self._values_left -= 1
        if self._values_left < 0:
            raise ProtocolError(f"references expand to more than {self._values_max} values")
        if depth > DEPTH_MAX:
            return None
        if isinstance(value, dict):
            if len(value) == 1 and isinstance(value.get("$ref"), str):
                return self.resolved(self._at(value["$ref"]), depth + 1)
            return {key: self.resolved(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, depth + 1) for item in value]
        return value

    def _at(self, path: str) -> Any:
        if path not in self._found:
            self._found[path] = _at(self._root, path)
        return self._found[path]


def _at(root: Any, path: str) -> Any:
    if not path.startswith("$") or len(path) > REFERENCE_LENGTH_MAX:
        return None
    found = root
    for name, index in re.findall(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]", path[1:]):
        try:
            found = found[int(index)] if index else found[name.replace("\\", "")]
        except (LookupError, TypeError):
            return None
    # A reference to a reference is not followed: it may be circular.
    return None if isinstance(found, dict) and "$ref" in found else found
