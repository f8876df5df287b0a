"""Errors of commands, and how they are reported: one line with a remedy."""

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


class InvalidUsage(Exception):
    """A command was called with an argument that it does not accept."""


class CommandFailed(KeroloxError):
    """A command did not find what it was asked for, or could not do it."""


_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_REMEDIES: tuple[tuple[type[KeroloxError], str], ...] = (
    (ConnectFailed, "is it running? Give NameServers with -n or NAMESRV_ADDR; `kerolox up` starts one"),
    (ConnectionLost, "another program may listen there, or it was just stopped; try `kerolox doctor`"),
    (CallTimeout, "it may be busy, or the address may be wrong; try `kerolox doctor`"),
    (TopicNotFound, "`kerolox admin topicList` lists the topics"),
    (GroupNotFound, "`kerolox admin consumerProgress` lists the groups"),
    (ConsumerNotOnline, "`kerolox admin consumerProgress` shows which groups are online"),
    (RequestCodeNotSupported, "the broker's release does not have this feature"),
    (NoPermission, "keys are read from --access-key and --secret-key, or from $ROCKETMQ_HOME/conf/tools.yml"),
)


# The class name in the last line of a traceback of ours: `kerolox.errors.TopicNotFound: ...`.
_CLASS = re.compile(r"\bkerolox(?:\.\w+)*\.(\w+): ")
# The answers of RocketMQ 5.x brokers to requests that change users while no metadata provider is configured.
_NO_ACCOUNTS = re.compile("An system error occurred, please try again later|MetadataProvider is not configured")


def describe_error(error: KeroloxError) -> str:
    """Return the error as one line, with a remedy if there is a usual one."""
    text = " ".join(str(error).split())
    cause: BaseException | None = error
    if isinstance(error, PartlyDone):
        cause = next(iter(error.failed.values()))
    if _UNTRUSTED in text:
        return (
            f"{text}; give the CA that signed the server's certificate with --tls-ca, and a host name from the "
            "certificate with -n"
        )
    if _NO_ACCOUNTS.search(text):
        return f"{text}; a broker without an authenticationMetadataProvider answers like this: see its log"
    while cause is not None:
        if isinstance(cause, NoPermission) and not is_about_access(cause):
            return text
        for kind, remedy in _REMEDIES:
            if isinstance(cause, kind):
                return f"{text}; {remedy}"
        # The cause of a failed send is the error of its last attempt.
        cause = cause.__cause__
    return text


def describe_spark_error(message: str) -> str:
    """Return Spark's report of an error of ours as one line, without the class name and with the usual remedy."""
    named = _CLASS.search(message)
    text = _CLASS.sub("", " ".join(message.split()))
    remedies = [remedy for kind, remedy in _REMEDIES if named is not None and kind.__name__ == named[1]]
    return "; ".join([text, *remedies])


def silence_logging() -> None:
    """Keep log lines of the client off the terminal: the command reports its error in one line anyway."""
    logging.getLogger("kerolox").addHandler(logging.NullHandler())
