"""What a broker refuses, beside what every server does."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError
from kerolox.errors import ConsumerNotOnline as ConsumerNotOnline
from kerolox.errors import ConsumeTimeout as ConsumeTimeout
from kerolox.errors import GroupNotFound as GroupNotFound


class InvalidParameter(AnswerError, code=ResponseCode.INVALID_PARAMETER):
    """A name, a number or an id that cannot be."""


class ServiceNotAvailable(AnswerError, code=ResponseCode.SERVICE_NOT_AVAILABLE):
    """Nothing is accepted for now: the disk is full, a sync has failed, or the broker is a slave."""


class SubscriptionNotFound(AnswerError, code=ResponseCode.SUBSCRIPTION_NOT_EXIST):
    """The group does not subscribe to this topic, as far as its heartbeats say."""


class SubscriptionNotLatest(AnswerError, code=ResponseCode.SUBSCRIPTION_NOT_LATEST):
    """The consumer has changed its subscription, and its heartbeat has not told yet."""


class SubscriptionParseFailed(AnswerError, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED):
    """An expression that is none."""


class FilterDataNotFound(AnswerError, code=ResponseCode.FILTER_DATA_NOT_EXIST):
    """No heartbeat has brought the expression that a consumer pulls by."""


class FilterDataNotLatest(AnswerError, code=ResponseCode.FILTER_DATA_NOT_LATEST):
    """The expression has changed, and no heartbeat has told yet."""


class IllegalOperation(AnswerError, code=ResponseCode.ILLEGAL_OPERATION):
    """Too late, or not for this message."""


class NoMessage(AnswerError, code=ResponseCode.NO_MESSAGE):
    """There is no message at this offset."""


class PollingTimeout(AnswerError, code=ResponseCode.POLLING_TIMEOUT):
    """Nothing came while a consumer waited to pop."""
