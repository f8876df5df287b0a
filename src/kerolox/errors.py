"""The exception tree. An AnswerError that a server raises is raised again in the client that sent the request."""

from typing import ClassVar

from kerolox.codes import ResponseCode

# 4.x brokers answer SYSTEM_ERROR when access is denied; only the Java exception in the remark tells why.
_ACL_EXCEPTION = "AclException"


def reason(error: BaseException) -> str:
    """Return the message of an OSError without its errno, followed by the file name if there is one."""
    words = getattr(error, "strerror", None) or str(error)
    file = getattr(error, "filename", None)
    return words if file is None else f"{words}: {file}"


class KeroloxError(Exception):
    """The base class of all exceptions that Kerolox raises on purpose."""


class ConfigurationError(KeroloxError):
    """A setting has an invalid value; the message names the key, the value and what is accepted."""


class ServiceFailed(KeroloxError):
    """A background service failed and its siblings were stopped; the message names it, `__cause__` is its error."""


class ProtocolError(KeroloxError):
    """Bytes from a peer or a file violate the protocol; a connection that delivers them is closed."""


class RemotingError(KeroloxError):
    """A call got no response."""


class ConnectFailed(RemotingError):
    """No connection to the address could be made."""


class ConnectionLost(RemotingError):
    """The connection closed before the response arrived; it is unknown whether the request was executed."""


class CallTimeout(RemotingError):
    """No response arrived before the timeout; it is unknown whether the request was executed."""


class AnswerError(KeroloxError):
    """A response whose code is not SUCCESS."""

    code: int = ResponseCode.SYSTEM_ERROR
    _by_code: ClassVar[dict[int, type["AnswerError"]]] = {}

    def __init_subclass__(cls, code: ResponseCode) -> None:
        cls.code = code
        AnswerError._by_code.setdefault(code, cls)

    def __init__(self, remark: str | None = None, *, code: int | None = None) -> None:
        super().__init__(remark)
        self.remark = remark
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        try:
            name = ResponseCode(self.code).name
        except ValueError:
            name = "unknown code"
        return f"{self.remark or 'no reason given'} ({name}, {self.code})"

    @classmethod
    def of(cls, code: int, remark: str | None) -> "AnswerError":
        """Return the exception for `code`; a plain AnswerError if the code has no class of its own."""
        if code == ResponseCode.SYSTEM_ERROR and remark is not None and _ACL_EXCEPTION in remark:
            return NoPermission(remark, code=code)
        return cls._by_code.get(code, AnswerError)(remark, code=code)


class SystemFailure(AnswerError, code=ResponseCode.SYSTEM_ERROR):
    """The server failed, or refused for a reason without a response code of its own."""


class SystemBusy(AnswerError, code=ResponseCode.SYSTEM_BUSY):
    """The server's request queue is full; retry later or on another server."""


class RequestCodeNotSupported(AnswerError, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
    """The server has no processor for this request code."""


class NoPermission(AnswerError, code=ResponseCode.NO_PERMISSION):
    """The client, the topic or the broker lacks the permission for this request."""


class TopicNotFound(AnswerError, code=ResponseCode.TOPIC_NOT_EXIST):
    """The server does not have this topic, and may not create it."""


class QueryNotFound(AnswerError, code=ResponseCode.QUERY_NOT_FOUND):
    """The requested item (offset, message, configuration entry) does not exist."""


class GroupNotFound(AnswerError, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
    """The broker does not have this consumer group, and may not create it."""


class ConsumerNotOnline(AnswerError, code=ResponseCode.CONSUMER_NOT_ONLINE):
    """No consumer of this group is connected."""


class ConsumeTimeout(AnswerError, code=ResponseCode.CONSUME_MSG_TIMEOUT):
    """The client to which the broker forwarded the request did not answer in time."""
