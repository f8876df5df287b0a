"""What goes wrong on the side of an operator. Answers of servers are AnswerErrors, lost ones RemotingErrors."""

from collections.abc import Mapping

from kerolox.client.errors import ClientError
from kerolox.errors import KeroloxError


class AdminError(ClientError):
    """The root of what the AdminClient raises on its own account."""


class UnknownCluster(AdminError):
    """No NameServer lists this cluster; or none was named where there are several."""


class UnknownBroker(AdminError):
    """No NameServer lists this broker, or it has no living master."""


class MessageNotFound(AdminError):
    """No broker that was asked has this message, any more or at all."""


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
