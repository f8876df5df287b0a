"""What a page says when something goes wrong: one sentence, and what to do about it."""

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
    (ConnectFailed, "is it running there? The dashboard was told of NameServers with -n"),
    (CallTimeout, "it may be busy: try again, or see `kerolox doctor`"),
    (RequestCodeNotSupported, "it takes a broker of another release, or one that has this feature"),
    (NoPermission, "the dashboard's own keys come from --access-key and --secret-key"),
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


class Refused(Exception):
    """What was asked for cannot be done as it was asked; the sentence says why."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


class Cut(Exception):
    """What is being sent cannot be sent to its end; the browser sees that it is cut off."""


def sentence(error: KeroloxError) -> str:
    """Returns what happened, and the remedy if there is a usual one."""
    told = " ".join(str(error).split())[:_SIZE_MAX]
    cause = _cause(error)
    if isinstance(cause, NoPermission) and not is_about_access(cause):
        return told
    remedy = next((remedy for kind, remedy in _REMEDIES if isinstance(cause, kind)), None)
    return f"{told}; {remedy}" if remedy else told


def status(error: KeroloxError) -> int:
    """Returns the status of HTTP that goes with it."""
    cause = _cause(error)
    return next((status for kind, status in _STATUSES if isinstance(cause, kind)), 400)


def _cause(error: KeroloxError) -> KeroloxError:
    return next(iter(error.failed.values())) if isinstance(error, PartlyDone) else error
