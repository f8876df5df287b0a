"""Text that others have written, made fit to be shown: nothing in it moves a terminal, or looks like a line of ours."""

_CONTROLS = (*range(32), *range(127, 160))
_CODES = {code: f"\\x{code:02x}" for code in _CONTROLS if chr(code) != "\t"}
_CODES_OF_LINES = {code: shown for code, shown in _CODES.items() if chr(code) != "\n"}


def in_a_line(text: str) -> str:
    r"""Returns the text with `\x0a` and the like for what cannot be seen."""
    return text.translate(_CODES)


def in_lines(text: str) -> str:
    """Returns the same of text that may have several lines."""
    return text.translate(_CODES_OF_LINES)
