"""A client of servers: connections by address, made on demand, shared and reconnected (NettyRemotingClient)."""

import asyncio
import logging
import os
import random
import re
import ssl
from collections.abc import Iterable
from typing import Any, TypeVar

from kerolox.errors import ConfigurationError, ConnectFailed, ConnectionLost, RemotingError
from kerolox.remoting.address import parse_address
from kerolox.remoting.connection import Connection, close_all
from kerolox.remoting.limits import Limits
from kerolox.remoting.router import Router
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)

_NUMBER = re.compile(r"\[Errno (\d+)\]")


class Client:
    """Calls servers by address. `router` handles the requests that servers send back."""

    def __init__(
        self,
        router: Router | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_seconds: float = 3.0,
        limits: Limits | None = None,
    ) -> None:
        self._router = router or Router()
        self._tls = tls
        self._connect_timeout_seconds = connect_timeout_seconds
        self._limits = limits or Limits()
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        # Lost connections on which requests of the server are still in progress.
        self._leaving: set[Connection] = set()
        self._is_closed = False

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self, address: str, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> Reply[A]:
        """Return the response of the server at `address`, connecting first if necessary."""
        connection = await self.connection(address)
        return await connection.call(request, body, timeout_seconds=timeout_seconds)

    async def call_oneway(
        self, address: str, request: Request[Any], body: bytes = b"", *, timeout_seconds: float = 3.0
    ) -> None:
        connection = await self.connection(address)
        await connection.call_oneway(request, body, timeout_seconds=timeout_seconds)

    async def connection(self, address: str) -> Connection:
        """Return the open connection to `address`; concurrent callers share one attempt to connect."""
        connection = self._connections.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise ConnectFailed(f"cannot connect to {address}: the client is closed")
        attempt = self._connecting.get(address)
        if attempt is None:
            attempt = asyncio.create_task(self._connect(address), name=f"connect to {address}")
            self._connecting[address] = attempt
            attempt.add_done_callback(lambda done: self._attempted(address, done))
        # asyncio.wait neither cancels the attempt when one waiter is cancelled, nor raises its exception here.
        await asyncio.wait([attempt])
        if attempt.cancelled():
            raise ConnectFailed(f"cannot connect to {address}: the client was closed meanwhile")
        try:
            return attempt.result()
        finally:
            # The exception of the task refers to this frame, and to the connection that failed.
            del attempt

    def connected(self, address: str) -> Connection | None:
        """Return the open connection to `address`, or None."""
        connection = self._connections.get(address)
        return None if connection is None or connection.is_closed else connection

    def is_connected(self, address: str) -> bool:
        return self.connected(address) is not None

    def _attempted(self, address: str, attempt: asyncio.Task[Connection]) -> None:
        del self._connecting[address]
        if not attempt.cancelled():
            attempt.exception()  # mark as retrieved: every waiter may have been cancelled

    async def _connect(self, address: str) -> Connection:
        host, port = parse_address(address)
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_timeout_seconds):
                connection = await self._reach(host, port)
                connection.remote = address
                if self._tls is not None:
                    await connection.begin_tls(self._tls, server_hostname=host)
        except BaseException as error:
            if connection is not None:
                connection.abort()
            if isinstance(error, TimeoutError):
                raise ConnectFailed(f"{address} did not accept within {self._connect_timeout_seconds} s") from error
            # The resolver raises ValueError for a malformed host name.
            if isinstance(error, OSError | ValueError | ConnectionLost):
                raise ConnectFailed(f"cannot connect to {address}: {_reason(error)}") from error
            raise
        self._connections[address] = connection
        return connection

    async def _reach(self, host: str, port: int) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(self._router, self._limits, on_closed=self._lost), host, port
        )
        return connection

    def _lost(self, connection: Connection) -> None:
        if self._connections.get(connection.remote) is connection:
            del self._connections[connection.remote]
        self._leaving = {left for left in (*self._leaving, connection) if left.is_working}

    async def close(self) -> None:
        """Close all connections and cancel attempts to connect; pending calls raise ConnectionLost."""
        self._is_closed = True
        attempts = list(self._connecting.values())
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)
        await close_all([*self._connections.values(), *self._leaving], seconds=1)


def _reason(error: BaseException) -> str:
    """Return the error text of the system, which asyncio replaces by its own for failed connects."""
    words = getattr(error, "strerror", None) or str(error)
    if "Connect call failed" not in words:
        return words
    numbers = [error.errno] if isinstance(error, OSError) and error.errno else map(int, _NUMBER.findall(words))
    found = dict.fromkeys(os.strerror(number) for number in numbers)
    return ", ".join(text[:1].lower() + text[1:] for text in found) or words


class NameServers:
    """Uses one of several NameServers until it fails, then the next."""

    def __init__(self, client: Client, addresses: Iterable[str]) -> None:
        self._client = client
        self._addresses: list[str] = []
        self._chosen = 0
        self.update(addresses)

    def update(self, addresses: Iterable[str]) -> None:
        """Take a new list; the current NameServer stays if it is still listed."""
        addresses = list(dict.fromkeys(addresses))
        if not addresses:
            raise ConfigurationError("no NameServer address given: expected host:port, several separated by ';'")
        for address in addresses:
            parse_address(address)
        current = self.current if self._addresses else None
        self._addresses = addresses
        if current in self._addresses:
            self._chosen = self._addresses.index(current)
        else:
            # Clients that all start with the first of the list would leave the others idle.
            self._chosen = random.randrange(len(self._addresses))  # noqa: S311

    @property
    def current(self) -> str:
        return self._addresses[self._chosen]

    async def call(self, request: Request[A], body: bytes = b"", *, timeout_seconds: float = 3.0) -> Reply[A]:
        """Return the first response; each NameServer is tried at most once. An AnswerError counts as a response."""
        failure: RemotingError | None = None
        for address in self._addresses[self._chosen :] + self._addresses[: self._chosen]:
            try:
                return await self._client.call(address, request, body, timeout_seconds=timeout_seconds)
            except RemotingError as error:
                log.warning("NameServer %s did not answer: %s", address, error)
                failure = error
                # If several calls failed concurrently, only one moves on to the next.
                if address == self.current:
                    self._chosen = (self._chosen + 1) % len(self._addresses)
        assert failure is not None
        raise failure
