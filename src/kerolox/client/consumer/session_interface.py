"""The part of a session that consumers use to reach brokers; tests replace it."""

from typing import Any, Protocol, TypeVar

from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)


class BrokerAddresses(Protocol):
    def address(self, broker_name: str, broker_id: int = 0) -> str | None:
        """Return the address of a broker in a known route."""

    def readable_address(self, broker_name: str, broker_id: int = 0) -> tuple[int, str] | None:
        """Return id and address of a broker to read from: the wanted one of its group, or else another."""


class SessionInterface(Protocol):
    client_id: str

    @property
    def routes(self) -> BrokerAddresses: ...

    def refresh_route_soon(self, topic: str) -> None:
        """Fetch the route of a topic without waiting for it; called when a broker cannot be reached."""

    async def call(
        self, address: str, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Reply[A]: ...

    async def ask(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Command: ...

    async def oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None: ...
