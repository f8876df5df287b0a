"""Compiles SQL92 expressions over the properties of a message (SqlFilter)."""

import sys
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from kerolox.filters.errors import EvaluationError, ExpressionError
from kerolox.message.properties import by_mark, find

if TYPE_CHECKING:
    from kerolox.filters.nodes import Find, Node

SQL92: Final = "SQL92"

# Limits that Java does not have: compiling a larger expression would block the event loop for too long.
SIZE_MAX: Final = 32 * 1024
TOKENS_MAX: Final = 2048
_CACHED_MAX: Final = 256
# Up to this number of terms, each property is searched for in the record; for more, all properties are parsed first.
_FEW_TERMS: Final = 8
# Estimated memory of a term, and per byte of the text (a list of texts is one term).
_TERM_SIZE: Final = 256
_TEXT_FACTOR: Final = 12
_SHOWN_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. It is evaluated for the encoded properties of a record."""

    text: str
    _node: "Node"

    @property
    def size(self) -> int:
        """Estimated memory in bytes."""
        return sys.getsizeof(self.text) * _TEXT_FACTOR + self._node.terms * _TERM_SIZE

    def evaluate(self, properties: bytes) -> bool | None:
        """Return True, False, or None for unknown; EvaluationError if a property has the wrong type."""
        node = self._node
        look: Find = partial(find, properties) if node.terms <= _FEW_TERMS else by_mark(properties).get
        result: bool | None = node.evaluate(look)
        return result

    def matches(self, properties: bytes) -> bool:
        """Whether the expression is true; it is not if it is unknown or its evaluation fails."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False

    def matches_found(self, look: "Find") -> bool:
        """Like `matches`, for properties that were parsed once for several expressions."""
        try:
            return self._node.evaluate(look) is True
        except EvaluationError:
            return False


def compile_expression(text: str) -> Expression:
    """Compile an expression; ExpressionError, with position and reason, if Java would not compile it.

    Java ignores the text after a complete expression (`a LIKE 'x'` compiles as `a`); here it is an error.
    """
    if len(text) > SIZE_MAX:
        raise ExpressionError(f"expression of {len(text)} characters, at most {SIZE_MAX} allowed")
    compiled = _compiled(text)
    if isinstance(compiled, str):
        raise ExpressionError(compiled)
    return compiled


@lru_cache(maxsize=_CACHED_MAX)
def _compiled(text: str) -> Expression | str:
    """Return the expression or its error, so that errors are cached too: clients send the same expression again."""
    try:
        return Expression(text, _parse(text))
    except ExpressionError as error:
        return str(error)


def _parse(text: str) -> "Node":
    # Imported on first use: most brokers have no SQL92 consumers, and should not load the parser.
    from lark import UnexpectedCharacters, UnexpectedToken

    from kerolox.filters.grammar import SHOWN, begin
    from kerolox.filters.nodes import Misplaced, Node

    parser = begin(text)
    try:
        for count, token in enumerate(parser.iter_parse()):
            if count >= TOKENS_MAX:
                raise ExpressionError(
                    f"expression of more than {TOKENS_MAX} tokens, {position(text, token.start_pos or 0)}"
                )
        node = parser.feed_eof()  # type: ignore[no-untyped-call]
    except Misplaced as error:
        found = text[error.start : error.end]
        raise ExpressionError(f"{position(text, error.start)}: {_shown(found)} {error}") from error
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise ExpressionError(f"{position(text, at)}: unexpected character {_shown(text[at])}") from error
    except UnexpectedToken as error:
        is_end = error.token.type == "$END"
        at = len(text) if is_end else error.token.start_pos or 0
        found = "the end" if is_end else _shown(str(error.token))
        accepted = parser.accepts()  # type: ignore[no-untyped-call]
        expected = sorted({SHOWN.get(name, name.strip("_")) for name in accepted})
        raise ExpressionError(f"{position(text, at)}: found {found}, expected one of {' '.join(expected)}") from error
    assert isinstance(node, Node)
    return node


def position(text: str, at: int) -> str:
    """Return line and column of an offset in the text, counted from 1."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…")
