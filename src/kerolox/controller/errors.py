"""Answers of a controller that are raised rather than decided in state.py."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError


class NotLeader(AnswerError, code=ResponseCode.CONTROLLER_NOT_LEADER):
    """Another controller leads; GET_METADATA_INFO tells which."""


class InvalidRequest(AnswerError, code=ResponseCode.CONTROLLER_INVALID_REQUEST):
    """A field is missing, or its value is out of bounds."""
