"""Errors of compiling and evaluating expressions."""

from kerolox.errors import KeroloxError


class ExpressionError(KeroloxError):
    """An expression is invalid or too large; the message names the position and the reason."""


class EvaluationError(KeroloxError):
    """A property cannot be converted to the type it is compared with, for example a text to a number."""
