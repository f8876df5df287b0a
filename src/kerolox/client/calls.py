"""Requests of a session: made into frames, signed, and given up when their time is over."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kerolox.auth.signing import UNSIGNED, Credentials, signed
from kerolox.codes import CURRENT_VERSION, ResponseCode, Version
from kerolox.errors import AnswerError, CallTimeout
from kerolox.remoting.client import Client
from kerolox.remoting.connection import Connection, next_opaque
from kerolox.wire.command import JSON, ONEWAY_BIT, Command, encode
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)

LANGUAGE = "PYTHON"

_ONEWAY_SIZE_MAX = 64 * 1024


class _Waiting:
    """A call under way."""

    __slots__ = ("connection", "deadline", "frames_received", "future", "name", "seconds")

    def __init__(
        self,
        future: asyncio.Future[Command],
        connection: Connection,
        name: str,
        deadline: float,
        seconds: float,
    ) -> None:
        self.future = future
        self.connection = connection
        self.name = name
        self.deadline = deadline
        self.seconds = seconds
        self.frames_received = connection.frames_received


class Calls:
    """One timer serves all calls: hundreds under way cost no more than one."""

    def __init__(self, client: Client, credentials: Credentials | None) -> None:
        self._client = client
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._oneway_size = 0

    async def call(
        self, connection: Connection, request: Request[A], body: bytes, seconds: float, language: str = LANGUAGE
    ) -> Reply[A]:
        """Returns the answer; AnswerError if it is not SUCCESS, RemotingError if none comes."""
        answer = await self.ask(connection, request, body, seconds, language)
        if answer.code != ResponseCode.SUCCESS:
            raise AnswerError.of(answer.code, answer.remark)
        header = None if answer.ext is None else request.answer.decode(answer.ext)
        return Reply(header, answer.body, answer.code, answer.remark)  # type: ignore[arg-type]

    async def ask(
        self, connection: Connection, request: Request[Any], body: bytes, seconds: float, language: str = LANGUAGE
    ) -> Command:
        """Returns the answer as it came, whatever it says; RemotingError if none comes."""
        return await self.ask_with(
            connection, lambda opaque: self._frame(request, opaque, 0, body, language), request.code.name, seconds
        )

    async def ask_with(
        self, connection: Connection, frame: Callable[[int], bytes], name: str, seconds: float
    ) -> Command:
        """The same of a request that is made into a frame by the caller, once its opaque is known."""
        deadline = self._loop.time() + seconds
        if not connection.is_writable:
            await self._drained(connection, name, seconds)
        opaque = next_opaque()
        future = connection.begin(frame(opaque), opaque)
        self._waiting[opaque] = _Waiting(future, connection, name, deadline, seconds)
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        try:
            return await future
        finally:
            del self._waiting[opaque]
            connection.forget(opaque)

    async def oneway(self, connection: Connection, request: Request[Any], body: bytes, seconds: float) -> None:
        if not connection.is_writable:
            await self._drained(connection, request.code.name, seconds)
        frame = self._frame(request, next_opaque(), ONEWAY_BIT, body)
        connection.send(frame)
        self._oneway_size += len(frame)
        if self._oneway_size >= _ONEWAY_SIZE_MAX:
            # Whoever sends so without end would never let the loop write.
            self._oneway_size = 0
            await asyncio.sleep(0)

    def _frame(self, request: Request[Any], opaque: int, flag: int, body: bytes, language: str = LANGUAGE) -> bytes:
        ext = request.ext()
        version = CURRENT_VERSION
        if self._credentials is not None:
            ext = signed(self._credentials, ext, body)
            if UNSIGNED in ext:
                version = Version.V4_9_3
        return encode(
            JSON,
            code=request.code,
            opaque=opaque,
            flag=flag,
            language=language,
            version=version,
            ext=ext or None,
            body=body,
        )

    @staticmethod
    async def _drained(connection: Connection, name: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await connection.writable()
        except TimeoutError as error:
            raise CallTimeout(f"{name} could not be sent to {connection.remote} within {seconds:.3g} s") from error

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)
        self._timer_at = deadline

    def _expire(self) -> None:
        """Gives up what is over, and looks again when the next is."""
        self._timer = None
        now = self._loop.time()
        deaf: set[Connection] = set()
        for waiting in self._waiting.values():
            if waiting.deadline <= now and not waiting.future.done():
                remote, name = waiting.connection.remote, waiting.name
                waiting.future.set_exception(
                    CallTimeout(f"no answer to {name} from {remote} within {waiting.seconds:.3g} s")
                )
                if waiting.connection.frames_received == waiting.frames_received:
                    deaf.add(waiting.connection)
        for connection in deaf:
            # Nothing at all came since: whoever else waits there may as well learn it now, and try elsewhere.
            connection.abort()
        if self._waiting:
            next_deadline = min(
                (waiting.deadline for waiting in self._waiting.values() if not waiting.future.done()), default=None
            )
            if next_deadline is not None:
                self._set_timer(next_deadline)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
