"""Who answers which request: one table, code to method."""

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from kerolox.errors import AnswerError, ProtocolError, RequestCodeNotSupported, SystemFailure
from kerolox.runtime.lanes import Lane
from kerolox.wire.command import ONEWAY_BIT, Command, encode_answer
from kerolox.wire.header import Empty, Header, Request
from kerolox.wire.reply import Reply

if TYPE_CHECKING:
    from kerolox.remoting.connection import Connection

log = logging.getLogger(__name__)

A = TypeVar("A", bound=Header)
Q = TypeVar("Q", bound=Request[Any])
Method = TypeVar("Method", bound=Callable[..., Any])


class Incoming(msgspec.Struct, Generic[Q], gc=False):
    """A request on its way to the method that answers it."""

    header: Q
    command: Command
    connection: "Connection"

    @property
    def body(self) -> bytes:
        return self.command.body

    @property
    def version(self) -> int:
        return self.command.version


def handles(
    request: type[Request[A]], *, lane: str = "default"
) -> Callable[
    [Callable[[Any, Any], Reply[A] | Awaitable[Reply[A]]]],
    Callable[[Any, Any], Reply[A] | Awaitable[Reply[A]]],
]:
    """Marks the method of a processor that answers `request`, plainly or as a coroutine."""

    def mark(method: Callable[[Any, Any], Reply[A] | Awaitable[Reply[A]]]) -> Any:
        method.__dict__["handles"] = (request, lane)
        return method

    return mark


class _Route(msgspec.Struct):
    decode: Callable[[Any], Request[Any]]
    method: Callable[[Any], Any]
    lane: Lane
    is_coroutine: bool
    # Java answers even an error with the (empty) fields of the answer it would have given.
    error_ext: dict[str, str] | None


class Routes:
    """The table a server answers from; a code with two owners is refused when it is built."""

    def __init__(self, *processors: object, lanes: dict[str, Lane] | None = None) -> None:
        self._lanes = lanes or {}
        self._table: dict[int, _Route] = {}
        for processor in processors:
            self.include(processor)

    def include(self, processor: object) -> None:
        for _, method in inspect.getmembers(processor, callable):
            if marked := getattr(method, "handles", None):
                request, lane = marked
                self._add(request, lane, method)

    def _add(self, request: type[Request[Any]], lane: str, method: Callable[[Any], Any]) -> None:
        where = f"{method.__qualname__} for {request.__name__}"
        if request.code in self._table:
            raise TypeError(f"{where}: {self._table[request.code].method.__qualname__} answers it already")
        hints = typing.get_type_hints(method)
        gives = typing.get_args(hints.pop("return", None))
        if [typing.get_args(hint) for hint in hints.values()] != [(request,)] or gives != (request.answer,):
            raise TypeError(f"{where}: takes Incoming[{request.__name__}], gives Reply[{request.answer.__name__}]")
        self._table[request.code] = _Route(
            decode=request.decode,
            method=method,
            lane=self._lanes.setdefault(lane, Lane(lane, 10_000)),
            is_coroutine=inspect.iscoroutinefunction(method),
            error_ext=None if request.answer is Empty else {},
        )

    def answer(self, command: Command, connection: "Connection") -> bytes | None:
        """Returns the answer as a frame; None if there is none, or if it will be sent when it is ready."""
        route = self._table.get(command.code)
        if route is None:
            error = RequestCodeNotSupported(f" request type {command.code} not supported")
            return _failed(command, error, None)
        try:
            request = Incoming(route.decode(command.ext), command, connection)
            if route.is_coroutine:
                self._start(route, request)
                return None
            return _answered(command, route.method(request))
        except Exception as error:
            return _failed(command, error, route.error_ext)

    def _start(self, route: _Route, request: Incoming[Any]) -> None:
        route.lane.enter()
        try:
            request.connection.carry(self._carry_out(route, request))
        except BaseException:
            route.lane.leave()
            raise

    async def _carry_out(self, route: _Route, request: Incoming[Any]) -> None:
        try:
            answer = _answered(request.command, await route.method(request))
        except Exception as error:
            answer = _failed(request.command, error, route.error_ext)
        finally:
            route.lane.leave()
        if answer is not None:
            request.connection.send(answer)


def _answered(command: Command, reply: Reply[Any]) -> bytes | None:
    if command.flag & ONEWAY_BIT:
        return None
    header = reply.header
    return encode_answer(
        command.serialization,
        command.opaque,
        reply.code,
        reply.remark,
        None if header is None else header.ext(),
        reply.body,
    )


def _failed(command: Command, error: Exception, ext: dict[str, str] | None) -> bytes | None:
    """Turns whatever a method raised into the answer that says so."""
    if isinstance(error, ProtocolError):
        error = SystemFailure(str(error))
    if not isinstance(error, AnswerError):
        log.error("request %d failed", command.code, exc_info=error)
        error = SystemFailure(f"{type(error).__name__}: {error}")
    if command.flag & ONEWAY_BIT:
        log.debug("oneway request %d refused: %s", command.code, error)
        return None
    return encode_answer(command.serialization, command.opaque, error.code, error.remark, ext, b"")
