"""Policies decide about requests before any processor sees them: access control, quotas, tracing, request metrics.

The router asks its policies at one point, whichever way a request takes: decoded from JSON or binary, matched by a
template, answered from the response cache, or collected with others.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kerolox.remoting.connection import Connection
    from kerolox.remoting.router import Incoming


class Policy(Protocol):
    def admit(self, request: "Incoming[Any]") -> None:
        """Raise an AnswerError to refuse a decoded request; it is sent as the response."""

    def admit_equal(self, request: "Incoming[Any]", connection: "Connection", count: int) -> bool:
        """Whether to admit `count` requests of a connection that equal `request`, without decoding each.

        They differ from it only in the opaque; sends also in body, queue id, born timestamp and unique key. `request`
        has no body, and may have been learnt from another connection. False decides nothing: each request is decoded
        then, and passed to `admit`.
        """
