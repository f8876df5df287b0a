"""The tree of exceptions. An AnswerError raised by a server is the one its caller catches on the other side."""

from typing import ClassVar

from kerolox.codes import ResponseCode

_REFUSED_BY_4X = "AclException"


def reason(error: BaseException) -> str:
    """Returns why the system refused, in its words and without its number, and which file it was about."""
    words = getattr(error, "strerror", None) or str(error)
    file = getattr(error, "filename", None)
    return words if file is None else f"{words}: {file}"


class KeroloxError(Exception):
    """The root of everything Kerolox raises on purpose."""


class ConfigurationError(KeroloxError):
    """A setting that cannot be used; the message names the key, the value and what would be accepted."""


class ProtocolError(KeroloxError):
    """Bytes from a peer or a file that do not follow the protocol; the connection they came on is closed."""


class RemotingError(KeroloxError):
    """A call that got no answer."""


class ConnectFailed(RemotingError):
    """No connection to the address could be made."""


class ConnectionLost(RemotingError):
    """The connection ended before the answer came; whether the request was carried out is unknown."""


class CallTimeout(RemotingError):
    """No answer came in time; whether the request was carried out is unknown."""


class AnswerError(KeroloxError):
    """An answer other than SUCCESS."""

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
        """Returns the exception that stands for `code`; an AnswerError itself where the code has no class.

        Brokers of 4.x have no code for those whom they do not let in, and name the exception instead.
        """
        if code == ResponseCode.SYSTEM_ERROR and remark is not None and _REFUSED_BY_4X in remark:
            return NoPermission(remark, code=code)
        return cls._by_code.get(code, AnswerError)(remark, code=code)


class SystemFailure(AnswerError, code=ResponseCode.SYSTEM_ERROR):
    """The server failed, or refused for a reason that has no code of its own."""


class SystemBusy(AnswerError, code=ResponseCode.SYSTEM_BUSY):
    """The server has more waiting than it admits; try again, or try another."""


class RequestCodeNotSupported(AnswerError, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
    """The server has nobody who answers this code."""


class NoPermission(AnswerError, code=ResponseCode.NO_PERMISSION):
    """The server knows how, and will not."""


class TopicNotFound(AnswerError, code=ResponseCode.TOPIC_NOT_EXIST):
    """Nobody here has heard of this topic."""


class QueryNotFound(AnswerError, code=ResponseCode.QUERY_NOT_FOUND):
    """What was asked for does not exist."""


class GroupNotFound(AnswerError, code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST):
    """The broker has no such consumer group, and may not make it."""


class ConsumerNotOnline(AnswerError, code=ResponseCode.CONSUMER_NOT_ONLINE):
    """No consumer of this group is connected."""


class ConsumeTimeout(AnswerError, code=ResponseCode.CONSUME_MSG_TIMEOUT):
    """The client that was asked did not answer in time."""
