"""Error messages and HTTP status codes of pages."""

from kerolox.admin import MessageNotFound, PartlyDone, UnknownBroker, UnknownCluster
from kerolox.admin.errors import is_about_access
from kerolox.client.errors import SendFailed
from kerolox.errors import (
    CallTimeout,
    ConnectFailed,
    ConsumerNotOnline,
    GroupNotFound,
    KeroloxError,
    NoPermission,
    RemotingError,
    RequestCodeNotSupported,
    TopicNotFound,
)

_REMEDIES: tuple[tuple[type[KeroloxError], str], ...] = (
    (ConnectFailed, "is it running there? The addresses of NameServers are set with -n"),
    (CallTimeout, "it may be busy: try again, or run `kerolox doctor`"),
    (RequestCodeNotSupported, "this release of the broker does not have the feature"),
    (NoPermission, "the dashboard's own keys are set with --access-key and --secret-key"),
)
_STATUSES: tuple[tuple[type[KeroloxError], int], ...] = (
    (TopicNotFound, 404),
    (GroupNotFound, 404),
    (MessageNotFound, 404),
    (UnknownBroker, 404),
    (UnknownCluster, 404),
    (ConsumerNotOnline, 409),
    (NoPermission, 403),
    (RemotingError, 502),
    (SendFailed, 502),
)
_SIZE_MAX = 2000


class RequestRefused(Exception):
    """A request is invalid, not allowed or too large; the message is shown to the user."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class StreamAborted(Exception):
    """A response that has begun cannot be completed: the connection is closed, so that the browser notices it."""


def error_text(error: KeroloxError) -> str:
    """Return the error message in one line, with the usual remedy if there is one."""
    message = " ".join(str(error).split())[:_SIZE_MAX]
    cause = _cause(error)
    if isinstance(cause, NoPermission) and not is_about_access(cause):
        return message
    remedy = next((remedy for kind, remedy in _REMEDIES if isinstance(cause, kind)), None)
    return f"{message}; {remedy}" if remedy else message


def http_status(error: KeroloxError) -> int:
    """Return the HTTP status code for an error."""
    cause = _cause(error)
    return next((status for kind, status in _STATUSES if isinstance(cause, kind)), 400)


def _cause(error: KeroloxError) -> KeroloxError:
    return next(iter(error.failed.values())) if isinstance(error, PartlyDone) else error
