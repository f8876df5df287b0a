"""JSON tables under `config/`: topics, groups, offsets, filters (ConfigManager)."""

import logging
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from kerolox.errors import ProtocolError
from kerolox.runtime.files import BACKUP_SUFFIX, Disk, replace_whole
from kerolox.runtime.text import fastjson
from kerolox.store.errors import StoreDamaged

log = logging.getLogger(__name__)

TOPICS = "topics.json"
CONSUMER_OFFSET = "consumerOffset.json"
SUBSCRIPTION_GROUP = "subscriptionGroup.json"
CONSUMER_FILTER = "consumerFilter.json"
DELAY_OFFSET = "delayOffset.json"

DAMAGED_SUFFIX = ".damaged"

_INTEGER = re.compile(r"-?\d+")
_NOTHING: Mapping[str, Any] = {}

T = TypeVar("T")


class JsonTable(Generic[T]):
    """A value and its JSON file. A crash leaves the old or the new content, and the one before as `.bak`.

    Members of the file that the type does not declare are kept: a later version of Java may have written them.
    """

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self._disk = disk
        self._path = path
        self._kind = kind
        # The file is unreadable, so it must not become the backup.
        self._is_damaged = False
        self._unknown: dict[str, Any] = {}
        # Whether the file itself was missing or unreadable at the last `load`.
        self.is_restored = False

    @property
    def path(self) -> Path:
        return self._path

    def load(self) -> T | None:
        """Return the content of the file, or else of its backup; None if both are missing or empty.

        StoreDamaged if neither can be read. (Java continues with an empty table and overwrites the files.)
        """
        failure: ProtocolError | None = None
        self.is_restored = False
        for path in (self._path, self._beside(BACKUP_SUFFIX)):
            content = self._disk.read(path)
            try:
                if content:
                    value = self._decode(content)
                    if self.is_restored:
                        log.warning("%s is missing or damaged, using its backup", self._path)
                    return value
            except ProtocolError as error:
                log.warning("%s cannot be read: %s", path, error)
                failure = failure or error
            if path == self._path:
                self._is_damaged, self.is_restored = content is not None, True
        if failure is not None:
            raise StoreDamaged(f"neither {self._path} nor its backup can be read: {failure}") from failure
        return None

    def persist(self, value: T) -> None:
        """Replace the file. May block. On OSError it keeps its old content."""
        self.save(self.encode(value))

    def encode(self, value: T) -> bytes:
        """Return the JSON of `value`, to be passed to `save` in a thread."""
        return pretty(value, self._unknown)

    def save(self, content: bytes) -> None:
        """Replace the file unless it has this content already. May block; calls must not overlap."""
        if self._disk.read(self._path) == content:
            return
        if not self._disk.names(self._path.parent):
            self._disk.make_directory(self._path.parent)
            self._disk.sync(self._path.parent.parent)
        if self._is_damaged:
            self._disk.rename(self._path, self._beside(DAMAGED_SUFFIX))
            self._disk.sync(self._path.parent)
            self._is_damaged = False
        replace_whole(self._disk, self._path, content)

    def _decode(self, content: bytes) -> T:
        content = _with_quoted_keys(content)
        value = fastjson.decode(content, self._kind)
        self._unknown = _unknown(content, self._kind)
        return value

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)


# Reading

_STRING_OR_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|(?<=[{,])(\s*)(-?\d+)(?=\s*:)', re.DOTALL)


def _with_quoted_keys(content: bytes) -> bytes:
    """Quote integer keys, which most often makes the document standard JSON that the fast parser reads.

    A table of offsets may have megabytes of such keys.
    """
    return _STRING_OR_KEY.sub(lambda found: b'%b"%b"' % found.groups() if found[2] else found[0], content)


def _unknown(content: bytes, kind: type[Any]) -> dict[str, Any]:
    """Return the members of a document that `kind` does not declare."""
    declared = getattr(kind, "__struct_encode_fields__", None)
    if declared is None:
        # Not a struct but, for example, `dict[str, int]`: all members belong to the value.
        return {}
    try:
        # Raw avoids decoding the declared members, which may be large, a second time.
        members: dict[str, Any] = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except fastjson.DECODE_ERRORS:
        members = fastjson.decode(content, dict[str, Any])
    return {name: _opened(member) for name, member in members.items() if name not in declared}


def _opened(value: Any) -> Any:
    """Return a member with integer keys turned back into integers."""
    if isinstance(value, msgspec.Raw):
        value = msgspec.json.decode(value)
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys_are_integers = all(_INTEGER.fullmatch(key) for key in value)
    return {int(key) if keys_are_integers else key: _opened(item) for key, item in value.items()}


# Writing


def pretty(value: Any, unknown: Mapping[str, Any] = _NOTHING) -> bytes:
    """Return JSON in the layout of RocketMQ 5.x: tabs, members in alphabetical order, no nulls.

    `unknown` are further members of the outermost object.
    """
    parts: list[str] = []
    if unknown:
        kind: type[msgspec.Struct] = type(value)
        known = {name: getattr(value, field) for name, field in _members(kind)}
        value = dict(sorted({**unknown, **known}.items()))
    _write(value, "\n", parts)
    return "".join(parts).encode()


def _write(value: Any, line: str, parts: list[str]) -> None:
    """Append the JSON of `value`; `line` is a line feed and the tabs of its depth."""
    if isinstance(value, msgspec.Struct):
        _write_all([(f'"{name}":', getattr(value, field)) for name, field in _members(type(value))], line, parts)
    elif isinstance(value, dict) and value and all(type(key) is int and type(value[key]) is int for key in value):
        # Fast path for queue offsets, of which there may be thousands.
        inner = line + "\t"
        parts.append("{" + ",".join([f"{inner}{key}:{item}" for key, item in value.items()]) + line + "}")
    elif isinstance(value, dict):
        _write_all([(_key(key), item) for key, item in value.items()], line, parts)
    elif isinstance(value, list | tuple | set) and not all(type(item) is int for item in value):
        _write_all([("", item) for item in value], line, parts, "[]")
    else:
        parts.append(fastjson.encode(value).decode())


def _write_all(items: list[tuple[str, Any]], line: str, parts: list[str], brackets: str = "{}") -> None:
    parts.append(brackets[0])
    inner = line + "\t"
    comma = ""
    for name, item in items:
        if item is not None:
            parts.append(f"{comma}{inner}{name}")
            _write(item, inner, parts)
            comma = ","
    if comma:
        parts.append(line)
    parts.append(brackets[1])


def _key(key: Any) -> str:
    return f"{key}:" if type(key) is int else f"{fastjson.encode(key).decode()}:"


@cache
def _members(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return sorted(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
