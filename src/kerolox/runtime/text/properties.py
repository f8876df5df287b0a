"""The text format of Java's .properties files."""

import re
from collections.abc import Iterable, Mapping

_SEPARATOR = re.compile(r"(?<!\\)((?:\\\\)*)[ \t\f]*(?:[=:]|[ \t\f])[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.)|$)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Return keys and values in order; if a key occurs twice, its last value wins."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        found = _SEPARATOR.search(line)
        if found is None:
            properties[_unescape(line)] = ""
        else:
            properties[_unescape(line[: found.end(1)])] = _unescape(line[found.end() :])
    return properties


def format_lines(properties: Mapping[str, str]) -> str:
    """Return `key=value` lines, escaped so that `parse` gives the same mapping back."""
    return "".join(f"{_escape(key, spaces=True)}={_escape(value)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterable[str]:
    joined = ""
    for line in re.split(r"\r\n|\n|\r", text):
        stripped = line.lstrip(" \t\f")
        if not joined and (not stripped or stripped[0] in "#!"):
            continue
        joined += stripped
        # An odd number of backslashes at the end continues the line.
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2] or "", found[2] or ""),
        text,
    )
    # Java escapes characters beyond 16 bits as surrogate pairs.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, spaces: bool = False) -> str:
    text = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t").replace("\f", "\\f")
    )
    if spaces:
        return re.sub(r"([ :=#!])", r"\\\1", text)
    return "\\" + text if text.startswith(" ") else text
