"""The part of a session that consumers use to reach brokers; tests replace it."""

from typing import Any, Protocol, TypeVar

from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)


class BrokerAddresses(Protocol):
    def address(self, broker_name: str, broker_id: int = 0) -> str | None:
        """Return the address of a broker in a known route."""


class SessionInterface(Protocol):
    client_id: str

    @property
    def routes(self) -> BrokerAddresses: ...

    async def call(
        self, address: str, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Reply[A]: ...

    async def ask(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Command: ...

    async def oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None: ...
