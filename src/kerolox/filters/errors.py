"""What can be wrong with an expression, or with what it is asked about."""

from kerolox.errors import KeroloxError


class ExpressionError(KeroloxError):
    """An expression that is none, or that is larger than allowed; the text says where and what."""


class EvaluationError(KeroloxError):
    """A property is not what the expression takes it for: compared with a number, it is none."""
