"""What a broker refuses, beside what every server does."""

from kerolox.codes import ResponseCode
from kerolox.errors import AnswerError


class InvalidParameter(AnswerError, code=ResponseCode.INVALID_PARAMETER):
    """A name, a number or an id that cannot be."""


class ServiceNotAvailable(AnswerError, code=ResponseCode.SERVICE_NOT_AVAILABLE):
    """Nothing is accepted for now: the disk is full, a sync has failed, or the broker is a slave."""


class GroupNotFound(AnswerError, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
    """The broker has no such consumer group, and may not make it."""


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


class ConsumerNotOnline(AnswerError, code=ResponseCode.CONSUMER_NOT_ONLINE):
    """No consumer of this group is connected."""


class ConsumeTimeout(AnswerError, code=ResponseCode.CONSUME_MSG_TIMEOUT):
    """The client that was asked did not answer in time."""


class IllegalOperation(AnswerError, code=ResponseCode.ILLEGAL_OPERATION):
    """Too late, or not for this message."""


class NoMessage(AnswerError, code=ResponseCode.NO_MESSAGE):
    """There is no message at this offset."""


class SlaveNotAvailable(AnswerError, code=ResponseCode.SLAVE_NOT_AVAILABLE):
    """A slave cannot do this."""


class PollingTimeout(AnswerError, code=ResponseCode.POLLING_TIMEOUT):
    """Nothing came while a consumer waited to pop."""
