"""Compiles an SQL92 expression into a function that says whether a message is wanted."""

import sys
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from kerolox.filters.errors import EvaluationError, ExpressionError
from kerolox.message.properties import by_mark, find

if TYPE_CHECKING:
    from kerolox.filters.nodes import Find, Node

SQL92: Final = "SQL92"

# Bounds that Java does not have: a larger expression would keep everybody waiting.
SIZE_MAX: Final = 32 * 1024
TOKENS_MAX: Final = 2048
_CACHED_MAX: Final = 256
# So many properties and constants are looked for one by one; for more of them the properties are taken apart first.
_FEW_TERMS: Final = 8
# What a term takes in memory, about, and what each byte of the text does, since lists of texts are one term.
_TERM_SIZE: Final = 256
_TEXT_FACTOR: Final = 12
_SHOWN_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression; properties are given as a record has them."""

    text: str
    _node: "Node"

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sys.getsizeof(self.text) * _TEXT_FACTOR + self._node.terms * _TERM_SIZE

    def evaluate(self, properties: bytes) -> bool | None:
        """Returns True, False, or None for unknown; EvaluationError if a property cannot be compared as it is."""
        node = self._node
        look: Find = partial(find, properties) if node.terms <= _FEW_TERMS else by_mark(properties).get
        result: bool | None = node.evaluate(look)
        return result

    def matches(self, properties: bytes) -> bool:
        """Whether the expression is true; neither what is unknown nor what fails is."""
        try:
            return self.evaluate(properties) is True
        except EvaluationError:
            return False

    def matches_found(self, look: "Find") -> bool:
        """The same, where several expressions are asked about properties that are taken apart already."""
        try:
            return self._node.evaluate(look) is True
        except EvaluationError:
            return False


def compile_expression(text: str) -> Expression:
    """Returns the expression; ExpressionError, with the place and the reason, if Java would not compile it.

    Java ignores what follows a complete expression (of `a LIKE 'x'` it takes `a`), and here it is an error.
    """
    if len(text) > SIZE_MAX:
        raise ExpressionError(f"expression of {len(text)} characters, at most {SIZE_MAX} allowed")
    compiled = _compiled(text)
    if isinstance(compiled, str):
        raise ExpressionError(compiled)
    return compiled


@lru_cache(maxsize=_CACHED_MAX)
def _compiled(text: str) -> Expression | str:
    """Returns the expression, or what is wrong with it: whoever sends it will send it again."""
    try:
        return Expression(text, _parse(text))
    except ExpressionError as error:
        return str(error)


def _parse(text: str) -> "Node":
    # A broker without such consumers, which is nearly every one, should not carry the parser.
    from lark import UnexpectedCharacters, UnexpectedToken

    from kerolox.filters.grammar import SHOWN, begin
    from kerolox.filters.nodes import Misplaced, Node

    parser = begin(text)
    try:
        for count, token in enumerate(parser.iter_parse()):
            if count >= TOKENS_MAX:
                raise ExpressionError(
                    f"expression of more than {TOKENS_MAX} words, {place(text, token.start_pos or 0)}"
                )
        node = parser.feed_eof()  # type: ignore[no-untyped-call]
    except Misplaced as error:
        found = text[error.start : error.end]
        raise ExpressionError(f"{place(text, error.start)}: {_shown(found)} {error}") from error
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise ExpressionError(f"{place(text, at)}: unexpected character {_shown(text[at])}") from error
    except UnexpectedToken as error:
        is_end = error.token.type == "$END"
        at = len(text) if is_end else error.token.start_pos or 0
        found = "the end" if is_end else _shown(str(error.token))
        accepted = parser.accepts()  # type: ignore[no-untyped-call]
        expected = sorted({SHOWN.get(name, name.strip("_")) for name in accepted})
        raise ExpressionError(f"{place(text, at)}: found {found}, expected one of {' '.join(expected)}") from error
    assert isinstance(node, Node)
    return node


def place(text: str, at: int) -> str:
    """Says where a position is, as people count."""
    before = text[:at]
    return f"line {before.count(chr(10)) + 1}, column {at - (before.rfind(chr(10)) + 1) + 1}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…")
