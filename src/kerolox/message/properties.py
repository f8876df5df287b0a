"""Encoded properties of a record: a sequence of name, 0x01, value, 0x02.

Functions take a property name as its marker, the encoded name with its 0x01 (see `mark`), so that hot paths encode it
once.
"""

from collections.abc import Mapping
from typing import Final

from kerolox.message.errors import MessageIllegal

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"


def parse(data: bytes | str) -> dict[str, str]:
    """Return values by name. Properties without name or value are left out; of a repeated name the last one counts.

    A value may contain 0x01, as in RocketMQ since 4.9.1 (4.9.0 dropped such a property).
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for segment in text.split("\x02"):
        name, _, value = segment.partition("\x01")
        if name and value:
            found[name] = value
    return found


def to_bytes(properties: Mapping[str, str]) -> bytes:
    """Encode properties, with 0x02 after each; MessageIllegal if a separator in a name or value would change them."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if text.count("\x02") != len(properties) or text.count("\x01") != len(properties):
        for name, value in properties.items():
            if "\x01" in name or "\x02" in name or "\x02" in value:
                raise MessageIllegal(f"property {name!r} = {value!r} contains a separator, 0x01 or 0x02")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegal(f"a property is not valid UTF-8: {error}") from error


def mark(name: str) -> bytes:
    """Return the marker of a property name, for `find` and the other functions here; keep it in a constant."""
    return name.encode() + b"\x01"


def find(data: bytes, marked: bytes) -> bytes:
    """Return one value without parsing the others, empty if there is none; agrees with `parse`."""
    before, found, after = data.rpartition(marked)
    if not found:
        return b""
    if not before or before[-1] == 2:
        value = after.partition(b"\x02")[0]
        if value:
            return value
    return _find_before(data, marked, len(before))


def by_mark(data: bytes) -> dict[bytes, bytes]:
    """Return all values by marker: faster than `find` if many are needed."""
    found: dict[bytes, bytes] = {}
    for part in data.split(b"\x02"):
        start = part.find(b"\x01") + 1
        if 0 < start < len(part):
            found[part[:start]] = part[start:]
    return found


def by_initials(data: bytes) -> dict[bytes, bytes]:
    """Return the last property for each first four bytes of a name: one pass answers for many names.

    Two names may share their first four bytes: use `find_by_initials`, which checks the whole name.
    """
    return {part[:4]: part for part in data.split(b"\x02")}


def find_by_initials(outlined: dict[bytes, bytes], data: bytes, marked: bytes) -> bytes:
    """Return the result of `find` for a name of at least four bytes, given `by_initials(data)`."""
    part = outlined.get(marked[:4])
    if part is None:
        return b""
    size = len(marked)
    if part[:size] == marked and len(part) > size:
        return part[size:]
    return find(data, marked)


def _find_before(data: bytes, marked: bytes, end: int) -> bytes:
    """Search backwards from `end`, where the marker was part of a longer name or of a value, or had no value."""
    at = data.rfind(marked, 0, end)
    while at >= 0:
        if at == 0 or data[at - 1] == 2:
            start = at + len(marked)
            stop = data.find(b"\x02", start)
            if stop < 0:
                stop = len(data)
            if stop > start:
                return data[start:stop]
        at = data.rfind(marked, 0, at)
    return b""


def join(data: bytes, more: bytes) -> bytes:
    """Append `more`, which takes precedence. RocketMQ 4.9.1 to 5.1 omit the last 0x02, so it is added if missing."""
    if data and data[-1] != 2:
        return data + b"\x02" + more
    return data + more


def remove(data: bytes, marked: bytes) -> bytes:
    """Return the properties without one; the others stay byte for byte."""
    if marked not in data:
        return data
    return b"\x02".join([part for part in data.split(b"\x02") if not part.startswith(marked)])


def replace(data: bytes, marked: bytes, value: bytes) -> bytes:
    """Return the properties with a new value of an existing one; the others stay byte for byte and in place."""
    return b"\x02".join([marked + value if part.startswith(marked) else part for part in data.split(b"\x02")])


def put(data: bytes, marked: bytes, value: bytes) -> bytes:
    """Return the properties with this value of one, added at the end; the others stay byte for byte."""
    return join(remove(data, marked), marked + value + b"\x02")
