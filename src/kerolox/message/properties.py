"""Properties as a record keeps them: name, 0x01, value, 0x02, one after the other."""

from collections.abc import Mapping
from typing import Final

from kerolox.message.errors import MessageIllegal

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"


def parse(data: bytes | str) -> dict[str, str]:
    """Returns names and values; what lacks one of them is left out, and of a name that comes twice the last counts.

    A value ends with 0x02 and may hold 0x01: so reads RocketMQ since 4.9.1 (4.9.0 dropped such a property).
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    found: dict[str, str] = {}
    for segment in text.split("\x02"):
        name, _, value = segment.partition("\x01")
        if name and value:
            found[name] = value
    return found


def to_bytes(properties: Mapping[str, str]) -> bytes:
    """Returns the bytes of a record, 0x02 after each; MessageIllegal if a name or value would be read as another."""
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    if text.count("\x02") != len(properties) or text.count("\x01") != len(properties):
        for name, value in properties.items():
            if "\x01" in name or "\x02" in name or "\x02" in value:
                raise MessageIllegal(f"property {name!r} = {value!r} contains a separator, 0x01 or 0x02")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegal(f"a property is no text: {error}") from error


def mark(name: str) -> bytes:
    """Returns what `find` looks for; worth keeping where it is asked often."""
    return name.encode() + b"\x01"


def find(data: bytes, marked: bytes) -> bytes:
    """Returns one value without parsing the others, empty if it is not there; agrees with `parse`."""
    before, found, after = data.rpartition(marked)
    if not found:
        return b""
    if not before or before[-1] == 2:
        value = after.partition(b"\x02")[0]
        if value:
            return value
    return _find_before(data, marked, len(before))


def by_mark(data: bytes) -> dict[bytes, bytes]:
    """Returns all values by what `find` looks for, and what it finds: worth its while if many are looked for."""
    found: dict[bytes, bytes] = {}
    for part in data.split(b"\x02"):
        start = part.find(b"\x01") + 1
        if 0 < start < len(part):
            found[part[:start]] = part[start:]
    return found


def outline(data: bytes) -> dict[bytes, bytes]:
    """Returns the last property with each beginning, by the first four bytes of its name: one look for many names.

    Whoever takes one of them must see that it is the whole name, and else ask `find`.
    """
    return {part[:4]: part for part in data.split(b"\x02")}


def pick(outlined: dict[bytes, bytes], data: bytes, marked: bytes) -> bytes:
    """Returns what `find` does, for a name of four characters or more, with the help of the outline of `data`."""
    part = outlined.get(marked[:4])
    if part is None:
        return b""
    size = len(marked)
    if part[:size] == marked and len(part) > size:
        return part[size:]
    return find(data, marked)


def _find_before(data: bytes, marked: bytes, end: int) -> bytes:
    """Goes on where the last occurrence was none: the end of a longer name, part of a value, or without a value."""
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
    """Returns `data` and then `more`, which wins; 4.9.1 to 5.1 leave out the last 0x02, so it may be missing."""
    if data and data[-1] != 2:
        return data + b"\x02" + more
    return data + more


def remove(data: bytes, marked: bytes) -> bytes:
    """Returns the properties without one; all others stay byte for byte."""
    if marked not in data:
        return data
    return b"\x02".join([part for part in data.split(b"\x02") if not part.startswith(marked)])


def replace(data: bytes, marked: bytes, value: bytes) -> bytes:
    """Returns the properties with another value of one that is there; all others stay byte for byte, and in place."""
    return b"\x02".join([marked + value if part.startswith(marked) else part for part in data.split(b"\x02")])


def put(data: bytes, marked: bytes, value: bytes) -> bytes:
    """Returns the properties with this value of one, whether or not it was there; all others stay byte for byte."""
    return join(remove(data, marked), marked + value + b"\x02")
