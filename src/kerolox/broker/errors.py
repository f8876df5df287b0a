"""Errors that a broker answers requests with, in addition to those of kerolox.errors."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError
from kerolox.errors import ConsumerNotOnline as ConsumerNotOnline
from kerolox.errors import ConsumeTimeout as ConsumeTimeout
from kerolox.errors import GroupNotFound as GroupNotFound


class InvalidParameter(AnswerError, code=ResponseCode.INVALID_PARAMETER):
    """A name, number or id in the request is not valid."""


class ServiceNotAvailable(AnswerError, code=ResponseCode.SERVICE_NOT_AVAILABLE):
    """The broker cannot carry out the request now, for example because the disk is full or a flush has failed."""


class SlaveNotAvailable(AnswerError, code=ResponseCode.SLAVE_NOT_AVAILABLE):
    """The broker is a slave, which cannot do this; after a send: no slave has a copy, but the message is stored."""


class SubscriptionNotFound(AnswerError, code=ResponseCode.SUBSCRIPTION_NOT_EXIST):
    """According to its heartbeats, the group does not subscribe to this topic."""


class SubscriptionNotLatest(AnswerError, code=ResponseCode.SUBSCRIPTION_NOT_LATEST):
    """The consumer has changed its subscription, but its heartbeat with the change has not arrived yet."""


class SubscriptionParseFailed(AnswerError, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED):
    """The expression is not valid."""


class FilterDataNotFound(AnswerError, code=ResponseCode.FILTER_DATA_NOT_EXIST):
    """No heartbeat has registered the expression that a consumer pulls by."""


class FilterDataNotLatest(AnswerError, code=ResponseCode.FILTER_DATA_NOT_LATEST):
    """The expression has changed, but the heartbeat with the change has not arrived yet."""


class IllegalOperation(AnswerError, code=ResponseCode.ILLEGAL_OPERATION):
    """The operation is not allowed for this message, or too late."""


class NoMessage(AnswerError, code=ResponseCode.NO_MESSAGE):
    """There is no message at this offset."""


class PollingTimeout(AnswerError, code=ResponseCode.POLLING_TIMEOUT):
    """No message arrived while a pop request waited."""
