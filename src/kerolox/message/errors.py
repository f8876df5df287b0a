"""What can be wrong with a message."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError, KeroloxError


class RecordError(KeroloxError):
    """Bytes that are no record, or no batch of records; the message says where, and what is wrong with them."""


class MessageIllegal(AnswerError, code=ResponseCode.MESSAGE_ILLEGAL):
    """A message that no record could hold, or that is longer than allowed."""


class IdError(KeroloxError):
    """Text that is no message id, or no recall handle."""


class CompressionError(KeroloxError):
    """A body that cannot be decompressed: damaged, larger than allowed, or of a kind that is not installed here."""
