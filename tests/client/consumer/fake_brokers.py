"""A session whose brokers respond from a table and record the requests."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from kerolox.errors import ConnectFailed
from kerolox.wire.command import Command
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)


class FakeBrokers:
    """`answers` maps request types to functions that return a response header or an exception."""

    client_id = "10.0.0.1@1"

    def __init__(self) -> None:
        self.addresses = {"broker-a": "a:10911", "broker-b": "b:10911"}
        self.answers: dict[type[Request[Any]], Callable[[Any], Header | Exception | None]] = {}
        self.asked: list[tuple[str, Request[Any]]] = []
        self.oneway_requests: list[tuple[str, Request[Any]]] = []
        # The responses of `ask`, in order.
        self.commands: list[Command] = []
        self.refreshed: list[str] = []
        self.slaves: dict[tuple[str, int], str] = {}

    @property
    def routes(self) -> "FakeBrokers":
        return self

    def address(self, broker_name: str, broker_id: int = 0) -> str | None:
        return self.slaves.get((broker_name, broker_id)) if broker_id else self.addresses.get(broker_name)

    def readable_address(self, broker_name: str, broker_id: int = 0) -> tuple[int, str] | None:
        for candidate in (broker_id, 0, 1):
            if (address := self.address(broker_name, candidate)) is not None:
                return candidate, address
        return None

    def refresh_route_soon(self, topic: str) -> None:
        self.refreshed.append(topic)

    async def call(
        self, address: str, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Reply[A]:
        self.asked.append((address, request))
        if address not in self.addresses.values():
            raise ConnectFailed(f"cannot connect to {address}")
        answer = self.answers.get(type(request), lambda request: None)(request)
        if isinstance(answer, Exception):
            raise answer
        return Reply(cast("A | None", answer))

    async def ask(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Command:
        self.asked.append((address, request))
        if not self.commands:
            raise ConnectFailed(f"cannot connect to {address}")
        return self.commands.pop(0)

    async def oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None:
        self.oneway_requests.append((address, request))
