"""Errors that the admin client raises itself. Error responses are AnswerErrors, missing responses RemotingErrors."""

import re
from collections.abc import Mapping

from kerolox.client.errors import ClientError
from kerolox.errors import KeroloxError, NoPermission

# NO_PERMISSION remarks about something that no user may do, or about an invalid user or policy. Java's brokers use the
# same texts.
_FOR_ALL_USERS = re.compile(
    "forbidden|black list|cannot be changed|not allowed|"
    "can not consume by broadcast|group no permission|are not run here|"
    r"^The (user|subject|acl|actions|decision|policy|policies|resource|source ip|auth\w+MetadataProvider)\b|"
    "can not be (blank|null)"
)


class AdminError(ClientError):
    """The base class of errors that the AdminClient raises itself."""


class UnknownCluster(AdminError):
    """No NameServer lists this cluster, or there are several and none was given."""


class UnknownBroker(AdminError):
    """No NameServer lists this broker, or it has no master."""


class MessageNotFound(AdminError):
    """No broker has this message, or has it any more."""


class AccountRefused(AdminError):
    """A 4.x broker refused a change of its access lists."""


class PartlyDone(AdminError):
    """Some of several servers failed. The results of the others are in `done`."""

    def __init__(self, what: str, done: Mapping[str, object], failed: Mapping[str, KeroloxError]) -> None:
        super().__init__(what, done, failed)
        self.what = what
        # Keyed by the name of the broker, or the address of the NameServer.
        self.done = done
        self.failed = failed

    def __str__(self) -> str:
        reasons = "; ".join(f"{server}: {error}" for server, error in self.failed.items())
        total = len(self.done) + len(self.failed)
        return f"{self.what} failed on {len(self.failed)} of {total} servers: {reasons}"


def is_about_access(error: NoPermission) -> bool:
    """Whether other credentials might help: many NO_PERMISSION responses apply to all users."""
    return not _FOR_ALL_USERS.search(error.remark or "")
