"""What goes wrong on the side of an operator. Answers of servers are AnswerErrors, lost ones RemotingErrors."""

import re
from collections.abc import Mapping

from kerolox.client.errors import ClientError
from kerolox.errors import KeroloxError, NoPermission

# What nobody may do, or nobody now; and what was wrong with a user or a policy that was to be looked at or changed.
# Java's brokers say it in the same words.
_FOR_ALL = re.compile(
    "forbidden|black list|cannot be changed|not allowed|"
    "can not consume by broadcast|group no permission|are not run here|"
    r"^The (user|subject|acl|actions|decision|policy|policies|resource|source ip|auth\w+MetadataProvider)\b|"
    "can not be (blank|null)"
)


class AdminError(ClientError):
    """The root of what the AdminClient raises on its own account."""


class UnknownCluster(AdminError):
    """No NameServer lists this cluster; or none was named where there are several."""


class UnknownBroker(AdminError):
    """No NameServer lists this broker, or it has no living master."""


class MessageNotFound(AdminError):
    """No broker that was asked has this message, any more or at all."""


class AccountRefused(AdminError):
    """A broker of 4.x did not take a change of its access lists."""


class PartlyDone(AdminError):
    """Of several servers that were asked, some failed. What the others answered is in `done`."""

    def __init__(self, what: str, done: Mapping[str, object], failed: Mapping[str, KeroloxError]) -> None:
        super().__init__(what, done, failed)
        self.what = what
        # By the name of the broker, or the address of the NameServer.
        self.done = done
        self.failed = failed

    def __str__(self) -> str:
        reasons = "; ".join(f"{server}: {error}" for server, error in self.failed.items())
        total = len(self.done) + len(self.failed)
        return f"{self.what} failed on {len(self.failed)} of {total} servers: {reasons}"


def is_about_access(error: NoPermission) -> bool:
    """Whether other keys might help: most of what a server will not do it does for nobody."""
    return not _FOR_ALL.search(error.remark or "")
