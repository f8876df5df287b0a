"""Errors of encoding and decoding messages."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError


class RecordError(KeroloxError):
    """Bytes are not a valid record or batch; the text tells the position and the reason."""


class MessageIllegal(AnswerError, code=ResponseCode.MESSAGE_ILLEGAL):
    """A message does not fit into a record or exceeds a limit."""


class IdError(KeroloxError):
    """Text is not a message id or recall handle."""


class CompressionError(KeroloxError):
    """A body cannot be decompressed: it is damaged or too large, or the codec is not installed."""
