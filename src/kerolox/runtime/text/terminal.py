"""Escapes untrusted text for terminals and logs.

Control characters can move a terminal's cursor, change its title or forge lines that look like ours; marks of
bidirectional text and invisible characters can make a name look like another one. They are shown as escapes. Zero-width
joiners stay, since Persian, Hindi and emoji need them.
"""

from typing import Final

_INVISIBLE: Final = (
    *(0x00AD, 0x061C, 0x180E, 0xFEFF),
    *(0x200B, 0x200E, 0x200F),
    # Line and paragraph separators; embeddings and overrides.
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFFF9, 0xFFFC),
    # Tag characters, which are invisible.
    *range(0xE0000, 0xE0080),
)
_UNSAFE: Final = (*range(32), *range(127, 160), *_INVISIBLE)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(code: int) -> str:
    # JSON escapes characters beyond 16 bits as surrogate pairs.
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in _pairs(chr(code).encode("utf-16-be")))


def _pairs(data: bytes) -> list[bytes]:
    return [data[at : at + 2] for at in range(0, len(data), 2)]


_LINE: Final = {code: _escape(code) for code in _UNSAFE if chr(code) != "\t"}
_LINES: Final = {code: shown for code, shown in _LINE.items() if chr(code) != "\n"}
_JSON: Final = {code: _json_escape(code) for code in _UNSAFE if code >= 32}


def escape_line(text: str) -> str:
    r"""Return the text with everything that a terminal would not show escaped, as in `\x0a` or `\u202e`."""
    return text.translate(_LINE)


def escape_lines(text: str) -> str:
    """Return the text escaped in the same way, except for line ends and tabs."""
    return text.translate(_LINES)


def escape_json(text: str) -> str:
    """Return equivalent JSON in which unsafe characters, which encoders leave as they are, are escaped."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON)
