"""Shared by the tests of remoting: a processor, a server on a free port, and a peer that sends raw bytes."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import pytest
import trustme

from kerolox.codes import RequestCode
from kerolox.remoting.address import parse_address
from kerolox.remoting.router import Incoming, Router, handles
from kerolox.remoting.server.server import Server
from kerolox.remoting.tls import TlsFiles
from kerolox.runtime.clock import Clock, ManualClock
from kerolox.runtime.service import Supervisor
from kerolox.wire.command import JSON, Command, decode, encode
from kerolox.wire.frames import FrameReader
from kerolox.wire.header import Empty
from kerolox.wire.headers.namesrv import (
    DeleteKVConfig,
    GetKVConfig,
    GetKVListByNamespace,
    KVConfigFound,
    PutKVConfig,
)
from kerolox.wire.reply import Reply

PATIENCE_SECONDS = 20


class Echo:
    """Echoes requests at once, or waits until the test opens the gate."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.error: Exception | None = None
        self.answer_size = 0
        self.remotes: set[str] = set()

    @handles(GetKVConfig)
    def get(self, request: Incoming[GetKVConfig]) -> Reply[KVConfigFound]:
        """Echoe key and body."""
        self.asked.append(request.header.key)
        self.remotes.add(request.connection.remote)
        if self.error is not None:
            raise self.error
        return Reply(KVConfigFound(value=request.header.key), request.body or bytes(self.answer_size))

    @handles(GetKVListByNamespace)
    async def wait(self, request: Incoming[GetKVListByNamespace]) -> Reply[Empty]:
        """Answer when the gate with the name of the namespace is open."""
        self.asked.append(request.header.namespace)
        await self.gate(request.header.namespace).wait()
        if self.error is not None:
            raise self.error
        return Reply(body=request.header.namespace.encode())

    @handles(DeleteKVConfig)
    async def ask_back(self, request: Incoming[DeleteKVConfig]) -> Reply[Empty]:
        """Call the client back with the key, and respond with its response."""
        found = await request.connection.call(GetKVConfig(namespace="", key=request.header.key))
        return Reply(body=(found.fields.value or "").encode())

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())


@contextlib.asynccontextmanager
async def serving(
    *processors: object, router: Router | None = None, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Server]:
    """A server on a free port, with a manual clock by default."""
    server = Server(router or Router(*processors), host="127.0.0.1", port=0, clock=clock or ManualClock(), **options)
    async with Supervisor(server):
        yield server


class Peer:
    """A raw peer: sends any bytes and returns what it receives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader()
        self._answers: list[Command] = []

    @classmethod
    async def to(cls, address: str, *, receive_buffer: int | None = None, tls: ssl.SSLContext | None = None) -> Self:
        connector = socket.socket()
        connector.setblocking(False)
        if receive_buffer is not None:
            connector.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(connector, parse_address(address))
        host = None if tls is None else "127.0.0.1"
        return cls(*await asyncio.open_connection(sock=connector, ssl=tls, server_hostname=host))

    @property
    def name(self) -> str:
        host, port = self.writer.get_extra_info("sockname")
        return f"{host}:{port}"

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Command:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self._answers:
                data = await self.reader.read(65536)
                assert data, "closed before the response arrived"
                self._answers += [decode(frame) for frame in self._frames.feed(data)]
        return self._answers.pop(0)

    async def answers(self, count: int) -> list[Command]:
        return [await self.answer() for _ in range(count)]

    async def rest(self) -> bytes:
        """Return the bytes received until the other side closes."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        # Errors from a connection that the test broke on purpose do not matter.
        with contextlib.suppress(OSError, ssl.SSLError):
            await self.writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def ask(key: str = "k", *, opaque: int = 7, body: bytes = b"", flag: int = 0, serialization: int = JSON) -> bytes:
    """A request that Echo answers at once."""
    ext = {"namespace": "n", "key": key}
    return encode(serialization, code=RequestCode.GET_KV_CONFIG, opaque=opaque, flag=flag, ext=ext, body=body)


def ask_slow(namespace: str, *, opaque: int = 7, flag: int = 0) -> bytes:
    """A request that Echo answers when its gate is open."""
    code = RequestCode.GET_KVLIST_BY_NAMESPACE
    return encode(JSON, code=code, opaque=opaque, flag=flag, ext={"namespace": namespace})


def ask_unknown(*, opaque: int = 7, flag: int = 0, code: int = RequestCode.PUT_KV_CONFIG) -> bytes:
    """A request without a handler in Echo."""
    return encode(JSON, code=code, opaque=opaque, flag=flag)


def get(key: str = "k") -> GetKVConfig:
    return GetKVConfig(namespace="n", key=key)


def get_slow(namespace: str) -> GetKVListByNamespace:
    return GetKVListByNamespace(namespace=namespace)


def get_unknown() -> PutKVConfig:
    return PutKVConfig(namespace="n", key="k", value="v")


async def until(condition: Callable[[], object]) -> None:
    """Run the event loop until `condition` holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages logged at WARNING or above, by us or by asyncio."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def issue(authority: trustme.CA, folder: Path, *names: str, stem: str = "server") -> TlsFiles:
    """Write a certificate for `names` and its key into `folder`."""
    issued = authority.issue_cert(*names)
    certificate, key = folder / f"{stem}.pem", folder / f"{stem}.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(key)
    return TlsFiles(certificate, key)
