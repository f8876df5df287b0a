"""The grammar of SQL92 expressions (SelectorParser.jj), and its parser."""

from functools import cache

from lark import Lark
from lark.parsers.lalr_interactive_parser import InteractiveParser

from kerolox.filters.rules import Rules

GRAMMAR = r"""
start: _or

_or: or_ | and_ | _equality
_and: and_ | _equality

or_: _and (_OR _and)+
and_: _equality (_AND _equality)+

_equality: equal | not_equal | is_null | is_not_null | _comparison
equal: _equality "=" _comparison
not_equal: _equality _UNEQUAL _comparison
is_null: _equality _IS NULL
is_not_null: _equality _IS _NOT NULL

_comparison: greater | greater_equal | less | less_equal | between | not_between | within | not_within
           | contains | not_contains | starts_with | not_starts_with | ends_with | not_ends_with | _unary
greater: _comparison ">" _unary
greater_equal: _comparison _AT_LEAST _unary
less: _comparison "<" _unary
less_equal: _comparison _AT_MOST _unary
between: _comparison _BETWEEN _unary _AND _unary
not_between: _comparison _NOT _BETWEEN _unary _AND _unary
within: _comparison _IN _list
not_within: _comparison _NOT _IN _list
contains: _comparison _CONTAINS STRING
not_contains: _comparison _NOT _CONTAINS STRING
starts_with: _comparison _STARTSWITH STRING
not_starts_with: _comparison _NOT _STARTSWITH STRING
ends_with: _comparison _ENDSWITH STRING
not_ends_with: _comparison _NOT _ENDSWITH STRING
_list: "(" STRING ("," STRING)* ")"

_unary: "+" _unary | minus | not_ | _primary
minus: "-" _unary
not_: _NOT _unary

_primary: string | integer | double | true | false | null | name | "(" _or ")"
string: STRING
integer: INTEGER
double: DOUBLE
true: TRUE
false: FALSE
null: NULL
name: NAME

_UNEQUAL: "<>"
_AT_LEAST: ">="
_AT_MOST: "<="
_NOT.3: /not(?![a-z0-9_$])/i
_AND.3: /and(?![a-z0-9_$])/i
_OR.3: /or(?![a-z0-9_$])/i
_BETWEEN.3: /between(?![a-z0-9_$])/i
_IN.3: /in(?![a-z0-9_$])/i
_IS.3: /is(?![a-z0-9_$])/i
_CONTAINS.3: /contains(?![a-z0-9_$])/i
_STARTSWITH.3: /startswith(?![a-z0-9_$])/i
_ENDSWITH.3: /endswith(?![a-z0-9_$])/i
TRUE.3: /true(?![a-z0-9_$])/i
FALSE.3: /false(?![a-z0-9_$])/i
NULL.3: /null(?![a-z0-9_$])/i
NAME: /[a-z_$][a-z0-9_$]*/i
DOUBLE.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
INTEGER: /0|[1-9][0-9]*l?/i
STRING: /'(''|[^'])*'/

BLANK: /[ \t\n\r\f]+/
LINE_COMMENT.3: /--[^\n\r]*/
BLOCK_COMMENT.3: /\/\*([^*]|\*+[^*\/])*\*+\//
%ignore BLANK
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

# Names of terminals in error messages.
SHOWN = {
    "$END": "the end",
    "STRING": "a text in quotes",
    "INTEGER": "a number",
    "DOUBLE": "a number",
    "NAME": "a property",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "EQUAL": "=",
    "PLUS": "+",
    "MINUS": "-",
    "MORETHAN": ">",
    "LESSTHAN": "<",
    "_UNEQUAL": "<>",
    "_AT_LEAST": ">=",
    "_AT_MOST": "<=",
}


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=Rules(), maybe_placeholders=False)


def begin(text: str) -> InteractiveParser:
    """Return a parser at the start of `text`; it does not recurse, however deeply an expression is nested."""
    return _parser().parse_interactive(text)
