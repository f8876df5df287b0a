"""What an operator is told when something goes wrong: one sentence, and what to do about it."""

import logging
import re

from kerolox.admin.errors import PartlyDone, is_about_access
from kerolox.errors import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    ConsumerNotOnline,
    GroupNotFound,
    KeroloxError,
    NoPermission,
    RequestCodeNotSupported,
    TopicNotFound,
)


class Misused(Exception):
    """A command was called with something that it cannot take; it says what."""


class NotDone(KeroloxError):
    """What was asked for was not found, or did not work out."""


_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_REMEDIES: tuple[tuple[type[KeroloxError], str], ...] = (
    (ConnectFailed, "is it running there? NameServers are given by -n, or by NAMESRV_ADDR; `kerolox up` starts one"),
    (ConnectionLost, "something else may listen there, or it was just stopped; `kerolox doctor` looks"),
    (CallTimeout, "it may be busy, or the address may lead elsewhere; see `kerolox doctor`"),
    (TopicNotFound, "`kerolox admin topicList` says which there are"),
    (GroupNotFound, "`kerolox admin consumerProgress` says which there are"),
    (ConsumerNotOnline, "`kerolox admin consumerProgress` says who is"),
    (RequestCodeNotSupported, "it takes a broker of another release, or one that has this feature"),
    (NoPermission, "keys are taken from --access-key and --secret-key, or from $ROCKETMQ_HOME/conf/tools.yml"),
)


# How a traceback begins to tell one of our errors.
_CLASS = re.compile(r"\bkerolox(?:\.\w+)*\.(\w+): ")
# How brokers of 5.x answer who wants to change accounts where none are kept.
_NO_ACCOUNTS = re.compile("An system error occurred, please try again later|MetadataProvider is not configured")


def sentence(error: KeroloxError) -> str:
    """Returns what happened, and the remedy if there is a usual one."""
    told = " ".join(str(error).split())
    cause: BaseException | None = error
    if isinstance(error, PartlyDone):
        cause = next(iter(error.failed.values()))
    if _UNTRUSTED in told:
        return (
            f"{told}; give the CA that signed the server's certificate with --tls-ca, and a name that is in it with -n"
        )
    if _NO_ACCOUNTS.search(told):
        return f"{told}; a broker without an authenticationMetadataProvider answers like this, its log says more"
    while cause is not None:
        if isinstance(cause, NoPermission) and not is_about_access(cause):
            return told
        for kind, remedy in _REMEDIES:
            if isinstance(cause, kind):
                return f"{told}; {remedy}"
        # A send that failed is told with what was tried last.
        cause = cause.__cause__
    return told


def unnamed(told: str) -> str:
    """Returns the same of an error that is told by another program, which names our classes and knows no remedy."""
    named = _CLASS.search(told)
    text = _CLASS.sub("", " ".join(told.split()))
    remedies = [remedy for kind, remedy in _REMEDIES if named is not None and kind.__name__ == named[1]]
    return "; ".join([text, *remedies])


def quiet() -> None:
    """Has nothing logged on the terminal of somebody who is told in a sentence anyway."""
    logging.getLogger("kerolox").addHandler(logging.NullHandler())
