"""Encodes and signs the requests of a session, and ends them when their timeout expires."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from kerolox.auth.signing import UNSIGNED, Credentials, signed
from kerolox.codes import CURRENT_VERSION, ResponseCode, Version
from kerolox.errors import AnswerError, CallTimeout
from kerolox.remoting.connection import Connection, next_opaque
from kerolox.wire.command import JSON, ONEWAY_BIT, Command, encode
from kerolox.wire.header import Header, Request
from kerolox.wire.reply import Reply

A = TypeVar("A", bound=Header)

LANGUAGE = "PYTHON"

_ONEWAY_SIZE_MAX = 64 * 1024


class _PendingRequest:
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
        # As of the start of the request; equal at its timeout if the connection has received nothing since.
        self.frames_received = connection.frames_received


class Requests:
    """Sends requests. One timer serves the timeouts of all requests in flight."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        # By opaque.
        self._pending: dict[int, _PendingRequest] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._oneway_size = 0

    async def call(
        self, connection: Connection, request: Request[A], body: bytes, seconds: float, language: str = LANGUAGE
    ) -> Reply[A]:
        """Return the decoded response; raise AnswerError unless it is SUCCESS, RemotingError if there is none."""
        response = await self.ask(connection, request, body, seconds, language)
        if response.code != ResponseCode.SUCCESS:
            raise AnswerError.of(response.code, response.remark)
        header = None if response.ext is None else request.answer.decode(response.ext)
        return Reply(header, response.body, response.code, response.remark)  # type: ignore[arg-type]

    async def ask(
        self, connection: Connection, request: Request[Any], body: bytes, seconds: float, language: str = LANGUAGE
    ) -> Command:
        """Return the response whatever its code; raise RemotingError if there is none."""
        return await self.ask_with_frame(
            connection, lambda opaque: self._frame(request, opaque, 0, body, language), request.code.name, seconds
        )

    async def ask_with_frame(
        self, connection: Connection, frame: Callable[[int], bytes], name: str, seconds: float
    ) -> Command:
        """Like `ask`, with the frame that the caller's function builds from the opaque."""
        deadline = self._loop.time() + seconds
        if not connection.is_writable:
            await self._wait_writable(connection, name, seconds)
        opaque = next_opaque()
        future = connection.begin(frame(opaque), opaque)
        self._pending[opaque] = _PendingRequest(future, connection, name, deadline, seconds)
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)
        try:
            return await future
        finally:
            del self._pending[opaque]
            connection.forget(opaque)

    async def oneway(self, connection: Connection, request: Request[Any], body: bytes, seconds: float) -> None:
        if not connection.is_writable:
            await self._wait_writable(connection, request.code.name, seconds)
        frame = self._frame(request, next_opaque(), ONEWAY_BIT, body)
        connection.send(frame)
        self._oneway_size += len(frame)
        if self._oneway_size >= _ONEWAY_SIZE_MAX:
            # Yield now and then: a caller that only sends oneway requests would otherwise never let the loop write.
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
    async def _wait_writable(connection: Connection, name: str, seconds: float) -> None:
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
        """Fail the requests whose deadline has passed, and set the timer to the next deadline."""
        self._timer = None
        now = self._loop.time()
        silent: set[Connection] = set()
        for pending in self._pending.values():
            if pending.deadline <= now and not pending.future.done():
                remote, name = pending.connection.remote, pending.name
                pending.future.set_exception(
                    CallTimeout(f"no answer to {name} from {remote} within {pending.seconds:.3g} s")
                )
                if pending.connection.frames_received == pending.frames_received:
                    silent.add(pending.connection)
        for connection in silent:
            # It has received nothing since the request was sent. Abort it, so that its other requests fail now and
            # can be retried elsewhere, instead of each waiting for its own timeout.
            connection.abort()
        if self._pending:
            next_deadline = min(
                (pending.deadline for pending in self._pending.values() if not pending.future.done()), default=None
            )
            if next_deadline is not None:
                self._set_timer(next_deadline)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
