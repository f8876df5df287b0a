"""Nodes of an expression: each has a function that evaluates it for the properties of a message."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from lark import Token

from kerolox.filters.errors import ExpressionError
from kerolox.filters.values import Long, Value, compare, order_doubles, read_double, read_int, read_long, read_true

# Returns the value of a property by its marked name (see message.properties.mark); empty or None if it is not set.
Find: TypeAlias = Callable[[bytes], bytes | None]
Evaluate: TypeAlias = Callable[[Find], Any]

# Limits that Java does not have; they bound the cost of evaluating an expression for one message.
DEPTH_MAX: Final = 64
TERMS_MAX: Final = 512
_INFINITY: Final = float("inf")


class Kind(Enum):
    """The kinds of nodes that Java distinguishes by class."""

    PROPERTY = "property"
    CONSTANT = "constant"
    NEGATED = "negated"
    CONDITION = "condition"


@dataclass(frozen=True, slots=True)
class Node:
    kind: Kind
    evaluate: Evaluate
    # Position in the text of the expression.
    start: int
    end: int
    # The value of a constant or of a negated number.
    value: Value = None
    # The marked name of a property.
    marked: bytes = b""
    depth: int = 1
    # Upper limit of the properties and constants that an evaluation reads.
    terms: int = 1

    @property
    def is_constant(self) -> bool:
        return self.kind is Kind.CONSTANT

    @property
    def is_condition(self) -> bool:
        return self.kind is Kind.CONDITION or (
            self.is_constant and (self.value is None or isinstance(self.value, bool))
        )


class Misplaced(ExpressionError):
    """A part of an expression is not allowed at its position; the message says why, `start` and `end` where."""

    def __init__(self, node: Node, problem: str) -> None:
        super().__init__(problem)
        self.start, self.end = node.start, node.end


def as_condition(node: Node) -> Node:
    """Return a node with a truth value. As in Java, a property, which is a text, is false if it is set."""
    if node.is_condition:
        return node
    if node.kind is not Kind.PROPERTY:
        raise Misplaced(node, "is neither true nor false")
    marked = node.marked
    return condition(lambda find: False if find(marked) else None, node)


def unquoted(token: Token) -> bytes:
    # A text with lone surrogates cannot be encoded, and never equals a property of a record.
    return token[1:-1].replace("''", "'").encode("utf-8", "surrogatepass")


def start_of(token: Token) -> int:
    return token.start_pos or 0


def end_of(token: Token) -> int:
    return start_of(token) + len(token)


def constant(token: Token, value: Value) -> Node:
    return Node(Kind.CONSTANT, lambda find: value, start_of(token), end_of(token), value)


def condition(evaluate: Evaluate, *nodes: Node) -> Node:
    return combined(Kind.CONDITION, evaluate, nodes)


def combined(kind: Kind, evaluate: Evaluate, nodes: Sequence[Node]) -> Node:
    """Return a node over other nodes; Misplaced if it becomes too large."""
    depth, terms = 1 + max(node.depth for node in nodes), sum(node.terms for node in nodes)
    if depth > DEPTH_MAX:
        raise Misplaced(nodes[0], f"is nested more than {DEPTH_MAX} deep")
    if terms > TERMS_MAX:
        raise Misplaced(nodes[0], f"and what follows have more than {TERMS_MAX} terms")
    return Node(kind, evaluate, nodes[0].start, nodes[-1].end, depth=depth, terms=terms)


def negation(node: Node) -> Node:
    inner = node.evaluate

    def evaluate(find: Find) -> bool | None:
        value = inner(find)
        return None if value is None else not value

    return condition(evaluate, node)


def all_of(nodes: list[Node]) -> Node:
    parts = tuple(node.evaluate for node in nodes)

    def evaluate(find: Find) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(find)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return condition(evaluate, *nodes)


def any_of(nodes: list[Node]) -> Node:
    parts = tuple(node.evaluate for node in nodes)

    def evaluate(find: Find) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(find)
            if value:
                return True
            if value is None:
                result = None
        return result

    return condition(evaluate, *nodes)


def text_search(node: Node, token: Token, is_found: Callable[[bytes, bytes], bool], *, is_wanted: bool) -> Node:
    text, inner = unquoted(token), node.evaluate

    def evaluate(find: Find) -> bool:
        value = inner(find)
        return isinstance(value, bytes) and is_found(value, text) is is_wanted

    # Searching for an empty text is false, with NOT as well.
    return condition(evaluate if text else lambda find: False, node)


_SWAPPED: Final = {
    operator.lt: operator.gt,
    operator.gt: operator.lt,
    operator.le: operator.ge,
    operator.ge: operator.le,
    operator.eq: operator.eq,
}


def equality(left: Node, right: Node) -> Evaluate:
    fast = _with_constant(left, right, operator.eq)
    if fast is not None:
        return fast
    of_left, of_right = left.evaluate, right.evaluate

    def evaluate(find: Find) -> bool | None:
        one, other = of_left(find), of_right(find)
        if one is None:
            return True if other is None else None
        return other is not None and compare(one, other) == 0

    return evaluate


def ordering(left: Node, right: Node, holds: Callable[[Any, Any], bool]) -> Node:
    for node in (left, right):
        if node.is_condition or (node.is_constant and isinstance(node.value, bytes)):
            raise Misplaced(node, "cannot be compared by >, >=, <, <= or BETWEEN: only numbers and properties can")
    fast = _with_constant(left, right, holds)
    if fast is not None:
        return condition(fast, left, right)
    of_left, of_right = left.evaluate, right.evaluate

    def evaluate(find: Find) -> bool | None:
        one = of_left(find)
        if one is None:
            return None
        other = of_right(find)
        if other is None:
            return None
        if isinstance(one, bytes) and isinstance(other, bytes):
            return holds(order_doubles(read_double(one), read_double(other)), 0)
        return holds(compare(one, other), 0)

    return condition(evaluate, left, right)


def _with_constant(left: Node, right: Node, holds: Callable[[Any, Any], bool]) -> Evaluate | None:
    """Return a fast comparison of a property with a constant, the most frequent case; None for any other."""
    if left.kind is Kind.PROPERTY and right.value is not None:
        marked, constant, is_left = left.marked, right.value, True
    elif right.kind is Kind.PROPERTY and left.value is not None:
        marked, constant, holds, is_left = right.marked, left.value, _SWAPPED[holds], False
    else:
        return None
    if not is_left and holds is operator.eq:
        # `constant = property` is False, not unknown, if the property is not set: the general path handles it.
        return None
    read = _reader(constant)

    def evaluate(find: Find) -> bool | None:
        text = find(marked)
        return holds(read(text), constant) if text else None

    def equals(find: Find) -> bool | None:
        text = find(marked)
        return text == constant if text else None

    return equals if isinstance(constant, bytes) else evaluate


def _reader(constant: Value) -> Callable[[bytes], Value]:
    if isinstance(constant, bool):
        return read_true
    if isinstance(constant, float):
        return _read_ordered
    return read_long if isinstance(constant, Long) else read_int


def _read_ordered(text: bytes) -> float:
    """Return a number that orders like Java's against finite ones: NaN, the greatest there, becomes infinity."""
    number = read_double(text)
    return number if number == number else _INFINITY
