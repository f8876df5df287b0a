"""Turns the rules of the grammar into nodes, and refuses what Java refuses to compile."""

import operator
from typing import Final

from lark import Token, Transformer, v_args

from kerolox.filters.nodes import (
    Find,
    Kind,
    Misplaced,
    Node,
    all_of,
    any_of,
    as_condition,
    combined,
    condition,
    constant,
    end_of,
    equality,
    negation,
    ordering,
    start_of,
    text_search,
    unquoted,
)
from kerolox.filters.values import Long, Value, compare
from kerolox.message.properties import mark

_DOUBLE_MAX: Final = 1.7976931348623157e308


@v_args(inline=True)
class Rules(Transformer[Token, Node]):
    """Builds the nodes of an expression from the leaves up, one method per rule of `grammar.GRAMMAR`."""

    def start(self, node: Node) -> Node:
        return as_condition(node)

    def string(self, token: Token) -> Node:
        return constant(token, unquoted(token))

    def integer(self, token: Token) -> Node:
        number = int(token.rstrip("lL")[:20])
        if number >= 2**63:
            raise Misplaced(constant(token, 0), "is greater than 9223372036854775807")
        return constant(token, number if number < 2**31 else Long(number))

    def double(self, token: Token) -> Node:
        number = float(token)
        node = constant(token, number)
        if number > _DOUBLE_MAX:
            raise Misplaced(node, f"is greater than {_DOUBLE_MAX}")
        if number == 0:
            # Java refuses 0.0 with this reason too.
            raise Misplaced(node, "is less than 4.9E-324, the smallest positive double; write 0 instead")
        return node

    def true(self, token: Token) -> Node:
        return constant(token, True)

    def false(self, token: Token) -> Node:
        return constant(token, False)

    def null(self, token: Token) -> Node:
        return constant(token, None)

    def name(self, token: Token) -> Node:
        marked = mark(token)

        def evaluate(find: Find) -> Value:
            return find(marked) or None

        return Node(Kind.PROPERTY, evaluate, start_of(token), end_of(token), marked=marked)

    def minus(self, node: Node) -> Node:
        value = node.value
        if isinstance(value, int | float) and not isinstance(value, bool):
            negative = type(value)(-value)
            return Node(Kind.NEGATED, lambda find: negative, node.start, node.end, negative, depth=node.depth)
        inner = node.evaluate

        def evaluate(find: Find) -> Value:
            # Only constants are numbers. Anything else is unknown, unless its evaluation fails.
            inner(find)
            return None

        return combined(Kind.NEGATED, evaluate, [node])

    def not_(self, node: Node) -> Node:
        return negation(as_condition(node))

    def and_(self, *nodes: Node) -> Node:
        return all_of([as_condition(node) for node in nodes])

    def or_(self, *nodes: Node) -> Node:
        return any_of([as_condition(node) for node in nodes])

    def equal(self, left: Node, right: Node) -> Node:
        for node in (left, right):
            if node.is_constant and node.value is None:
                raise Misplaced(node, "cannot be compared: use IS NULL or IS NOT NULL")
        if left.is_constant and right.is_constant and left.is_condition and not right.is_condition:
            raise Misplaced(left, "cannot be compared with a number or a text")
        return condition(equality(left, right), left, right)

    def not_equal(self, left: Node, right: Node) -> Node:
        return negation(self.equal(left, right))

    def is_null(self, node: Node, _: Token) -> Node:
        inner = node.evaluate
        return condition(lambda find: inner(find) is None, node)

    def is_not_null(self, node: Node, _: Token) -> Node:
        inner = node.evaluate
        return condition(lambda find: inner(find) is not None, node)

    def greater(self, left: Node, right: Node) -> Node:
        return ordering(left, right, operator.gt)

    def greater_equal(self, left: Node, right: Node) -> Node:
        return ordering(left, right, operator.ge)

    def less(self, left: Node, right: Node) -> Node:
        return ordering(left, right, operator.lt)

    def less_equal(self, left: Node, right: Node) -> Node:
        return ordering(left, right, operator.le)

    def between(self, node: Node, low: Node, high: Node) -> Node:
        parts = [ordering(node, low, operator.ge), ordering(node, high, operator.le)]
        if low.is_constant and high.is_constant and compare(high.value, low.value) < 0:
            raise Misplaced(low, "must be less than or equal to the upper bound of BETWEEN")
        return all_of(parts)

    def not_between(self, node: Node, low: Node, high: Node) -> Node:
        return any_of([ordering(node, low, operator.lt), ordering(node, high, operator.gt)])

    def within(self, node: Node, *texts: Token) -> Node:
        if node.kind is not Kind.PROPERTY:
            raise Misplaced(node, "is not a property, which IN requires")
        marked, wanted = node.marked, frozenset(map(unquoted, texts))

        def evaluate(find: Find) -> bool | None:
            value = find(marked)
            return value in wanted if value else None

        return condition(evaluate, node)

    def not_within(self, node: Node, *texts: Token) -> Node:
        return negation(self.within(node, *texts))

    def contains(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.__contains__, is_wanted=True)

    def not_contains(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.__contains__, is_wanted=False)

    def starts_with(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.startswith, is_wanted=True)

    def not_starts_with(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.startswith, is_wanted=False)

    def ends_with(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.endswith, is_wanted=True)

    def not_ends_with(self, node: Node, text: Token) -> Node:
        return text_search(node, text, bytes.endswith, is_wanted=False)
