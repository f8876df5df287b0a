"""The documentation page with the results: each benchmark replaces only its own part."""

from __future__ import annotations

import re
from pathlib import Path

# A part starts with a first-level heading.
_HEADING = re.compile(r"^# ", re.MULTILINE)


def replace_part(path: Path, part: str) -> None:
    """Replace the part whose heading starts with the same word, or appends the part."""
    page = path.read_text() if path.exists() else ""
    path.write_text(replaced(page, part))


def replaced(page: str, part: str) -> str:
    starts = [found.start() for found in _HEADING.finditer(page)]
    before = page[: starts[0]] if starts else page
    parts = [page[start:end].rstrip() + "\n" for start, end in zip(starts, [*starts[1:], None], strict=False)]
    names = [_name(known) for known in parts]
    if _name(part) in names:
        parts[names.index(_name(part))] = part
    else:
        parts.append(part)
    return before + "\n".join(parts)


def _name(part: str) -> str:
    """Return the first word of the heading, which identifies a part."""
    return re.split(r"\W", part.removeprefix("# "), maxsplit=1)[0]
